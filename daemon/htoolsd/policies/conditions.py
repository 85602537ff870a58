"""The conditions under which a policy does something in a node group. Pure functions over plain data."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from htoolsd.policies.bounds import Bounds
from htoolsd.policies.memory import Memory, Rounds
from htoolsd.policies.settings import WEEKDAYS, Settings

_LONG = 3  # rounds: what was longer ago was not in a row
_SHORT = 60.0  # seconds: what is considered sooner belongs to the same round
_NONE = Rounds()


class Need(NamedTuple):
    """Whether there is a reason to begin something in a node group, whether to stop, and the reason in words,
    or why there is none. Between the two what goes on goes on.
    """

    begin: bool
    stop: bool
    why: str


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known of a node group when something is thought of there.

    ``local`` is the local time of ``now`` (seconds of the epoch); ``bounds`` are those of a plan.
    ``drained``, ``silent`` and ``updating`` (figures older than their instances) are nodes, ``left`` those
    that somebody is squeezing, or was; ``late`` whether the cluster is not known well enough. ``paused`` is
    until when the watcher is, 0 if it is not. ``jobs`` have not ended and touch the group. ``plan`` is one
    that is carried out there, ``proposal`` one of a policy that waits. ``others`` says what has just been
    done there, or would be. ``rounds`` tell for how long there has been a reason. ``moves``: whether nothing
    can be done without moves.
    """

    now: float
    local: datetime
    bounds: Bounds
    score: float
    need: Need
    drained: Sequence[str] = ()
    left: Sequence[str] = ()
    silent: Sequence[str] = ()
    updating: Sequence[str] = ()
    late: bool = False
    paused: float = 0.0
    jobs: Sequence[int] = ()
    plan: str | None = None
    proposal: str | None = None
    others: str | None = None
    rounds: Rounds = _NONE
    moves: bool = True

    @property
    def group(self) -> str:
        """The name of the group."""
        return self.bounds.group

    @property
    def calm(self) -> bool:
        """Whether nothing goes on in the group."""
        return not (self.drained or self.left or self.silent or self.updating or self.jobs or self.plan)


def counted(settings: Settings, seen: Situation) -> Situation:
    """The situation after one more round: hysteresis between beginning and stopping. Rounds in which the
    group cannot be judged, in which somebody else squeezes it, or that are too long ago, begin the count
    anew; events make no more rounds than the timer and those who ask now and then.
    """
    rounds, none = seen.rounds, seen.rounds._replace(over=0, working=False, last=seen.now)
    squeezed = seen.left and seen.jobs and seen.plan is None
    if seen.late or seen.silent or seen.drained or squeezed:
        return replace(seen, rounds=none)
    if seen.now - rounds.last > _LONG * settings.every_seconds:
        rounds = none
    again = rounds.over > 0 and seen.now - rounds.last < min(_SHORT, settings.every_seconds / 2)
    over = min(rounds.over + (not again), settings.hold) if seen.need.begin else 0
    working = not seen.need.stop and (rounds.working or over >= settings.hold)
    last = rounds.last if again else seen.now
    return replace(seen, rounds=rounds._replace(over=over, working=working, last=last))


def holding(settings: Settings, memory: Memory, seen: Situation) -> Iterator[tuple[str, str]]:
    """The conditions that hold a policy back, each with the reason; none if it may go on."""
    for name, condition in _CONDITIONS.items():
        reason = condition(settings, memory, seen)
        if reason is not None:
            yield name, reason


def over(settings: Settings, local: datetime) -> str | None:
    """Why nothing more is submitted of a plan that the policy has begun; None if it goes on."""
    if settings.mode != "act":
        return f"the policy's mode is {settings.mode}"
    return "its hours are over" if _outside(settings, local) else None


def _mode(settings: Settings, _memory: Memory, _seen: Situation) -> str | None:
    return "the policy is off" if settings.mode == "off" else None


def _failures(settings: Settings, memory: Memory, seen: Situation) -> str | None:
    if memory.off(settings):
        return f"switched off after {memory.failed} plans that failed, the last one: {memory.error}"
    if memory.failed and seen.now < memory.rests_until:
        return f"pauses for {memory.rests_until - seen.now:.0f} s after a plan that failed: {memory.error}"
    return None


def _hours(settings: Settings, _memory: Memory, seen: Situation) -> str | None:
    return _outside(settings, seen.local)


def _outside(settings: Settings, local: datetime) -> str | None:
    """Why a policy does nothing at a time, by its hours and weekdays."""
    minute = f"{local:%H:%M}"
    if not settings.within_hours(minute):
        return f"it is {minute}, not within {settings.hours}"
    night = settings.after_midnight(minute)
    day = WEEKDAYS[(local.weekday() - night) % len(WEEKDAYS)]
    if not settings.weekdays or day in settings.weekdays:
        return None
    return f"{'this is the night of' if night else 'today is'} {day}, not {' or '.join(settings.weekdays)}"


def _data(_settings: Settings, _memory: Memory, seen: Situation) -> str | None:
    if seen.late:
        return "what is known of the cluster is too old"
    return f"figures are older than their instances: {_some(seen.updating)}" if seen.updating else None


def _silent(_settings: Settings, _memory: Memory, seen: Situation) -> str | None:
    return f"nodes do not report: {_some(seen.silent)}" if seen.silent else None


def _drained(_settings: Settings, _memory: Memory, seen: Situation) -> str | None:
    return f"nodes are drained: {_some(seen.drained)}" if seen.drained else None


def _watcher(_settings: Settings, _memory: Memory, seen: Situation) -> str | None:
    seconds = seen.paused - seen.now
    return f"the watcher is paused for another {seconds:.0f} s" if seconds > 0 else None


def _jobs(_settings: Settings, _memory: Memory, seen: Situation) -> str | None:
    return f"jobs have not ended: {_some([str(job) for job in seen.jobs])}" if seen.jobs else None


def _plan(settings: Settings, _memory: Memory, seen: Situation) -> str | None:
    if seen.plan is not None:
        return f"plan {seen.plan} is being carried out"
    if seen.proposal is not None and settings.mode == "propose":
        return f"plan {seen.proposal} waits for htoolsctl execute"
    return None


def _budget(settings: Settings, memory: Memory, seen: Situation) -> str | None:
    left = memory.left(settings, seen.now)
    if not seen.moves or (left.moves and left.mib):
        return None
    return f"the day's budget is spent: {left.moves} moves and {left.mib} MiB are left"


def _others(_settings: Settings, _memory: Memory, seen: Situation) -> str | None:
    return seen.others


def _hold(settings: Settings, _memory: Memory, seen: Situation) -> str | None:
    if seen.rounds.working:
        return None
    over, why = seen.rounds.over, seen.need.why
    return f"{why} for {over} of {settings.hold} rounds" if over else why


Condition = Callable[[Settings, Memory, Situation], str | None]  # why it holds back

_CONDITIONS: Mapping[str, Condition] = {
    "mode": _mode,
    "failures": _failures,
    "hours": _hours,
    "data": _data,
    "silent": _silent,
    "drained": _drained,
    "watcher": _watcher,
    "jobs": _jobs,
    "plan": _plan,
    "others": _others,
    "budget": _budget,
    "hold": _hold,
}


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
