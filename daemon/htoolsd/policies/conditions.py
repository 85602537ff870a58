"""The conditions under which a policy does something in a node group. Pure functions over plain data."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from htoolsd.policies.memory import Memory, Room, Rounds
from htoolsd.policies.settings import WEEKDAYS, Settings

_LONG = 3  # rounds: what was longer ago was not in a row
_NONE, _FULL = Rounds(), Room(0, 0)


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

    ``local`` is the local time of ``now`` (seconds of the epoch). ``n1`` counts nodes that fail N+1.
    ``drained``, ``silent`` and ``updating`` (figures older than their instances) are nodes, ``late`` whether
    the cluster is not known well enough. ``paused`` is until when the watcher is, 0 if it is not. ``jobs``
    have not ended and touch the group. ``plan`` is one that is carried out there, ``proposal`` one of a
    policy that waits. ``others`` says what has just been done there, or would be. ``rounds`` tell for how
    long there has been a reason.

    ``quiet`` are the other groups in which nothing goes on either. ``resting`` are instances that moved
    lately, ``switched`` nodes that were powered or came back lately, ``claimed`` nodes of which somebody has
    claimed something; ``room`` is what the budgets leave for a plan, ``reserve`` how many standard instances
    each node keeps room for. ``moves``: whether nothing can be done without moves.
    """

    now: float
    local: datetime
    group: str
    score: float
    need: Need
    n1: int = 0
    drained: Sequence[str] = ()
    silent: Sequence[str] = ()
    updating: Sequence[str] = ()
    late: bool = False
    paused: float = 0.0
    jobs: Sequence[int] = ()
    plan: str | None = None
    proposal: str | None = None
    others: str | None = None
    rounds: Rounds = _NONE
    quiet: Sequence[str] = ()
    resting: Sequence[str] = ()
    switched: Sequence[str] = ()
    claimed: Sequence[str] = ()
    room: Room = _FULL
    reserve: float = 0.0
    moves: bool = True

    @property
    def calm(self) -> bool:
        """Whether nothing goes on in the group."""
        return not (self.drained or self.silent or self.updating or self.jobs or self.plan)


def counted(settings: Settings, seen: Situation) -> Situation:
    """The situation after one more round: hysteresis between beginning and stopping. Rounds in which the
    group cannot be judged, or that are too long ago, begin the count anew.
    """
    rounds, none = seen.rounds, seen.rounds._replace(over=0, working=False, last=seen.now)
    if seen.late or seen.silent or seen.drained:
        return replace(seen, rounds=none)
    if seen.now - rounds.last > _LONG * settings.every_seconds:
        rounds = none
    over = min(rounds.over + 1, settings.hold) if seen.need.begin else 0
    working = not seen.need.stop and (rounds.working or over >= settings.hold)
    return replace(seen, rounds=rounds._replace(over=over, working=working, last=seen.now))


def holding(settings: Settings, memory: Memory, seen: Situation) -> Iterator[tuple[str, str]]:
    """The conditions that hold a policy back, each with the reason; none if it may go on."""
    for name, condition in _CONDITIONS.items():
        reason = condition(settings, memory, seen)
        if reason is not None:
            yield name, reason


def _mode(settings: Settings, _memory: Memory, _seen: Situation) -> str | None:
    return "the policy is off" if settings.mode == "off" else None


def _failures(settings: Settings, memory: Memory, seen: Situation) -> str | None:
    if memory.off(settings):
        return f"switched off after {memory.failed} plans that failed, the last one: {memory.error}"
    if memory.failed and seen.now < memory.rests_until:
        return f"pauses for {memory.rests_until - seen.now:.0f} s after a plan that failed: {memory.error}"
    return None


def _hours(settings: Settings, _memory: Memory, seen: Situation) -> str | None:
    day = WEEKDAYS[seen.local.weekday()]
    if settings.weekdays and day not in settings.weekdays:
        return f"today is {day}, not {' or '.join(settings.weekdays)}"
    minute = f"{seen.local:%H:%M}"
    return None if settings.within_hours(minute) else f"it is {minute}, not within {settings.hours}"


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


def touching(opcodes: Sequence[Mapping[str, Any]], here: Set[str], known: Set[str]) -> bool:
    """Whether a job touches a node group: one that names something of it (``here`` has the group's name and
    those of its nodes and instances), or nothing that is ``known`` in the cluster. Jobs that only ask do not.
    """
    working = [each for each in opcodes if "_QUERY" not in str(each.get("OP_ID"))]
    if not working:
        return False
    names = {text for each in working for text in _texts(each)}
    return bool(names & here) or not names & known


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _texts(each)
        case list() | tuple():
            for each in value:
                yield from _texts(each)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
