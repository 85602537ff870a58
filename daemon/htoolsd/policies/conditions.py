"""Conditions that hold a policy back in a node group, and hysteresis. Pure functions over plain data.

A policy begins after ``hold`` rounds in a row with a reason, and goes on until the need says stop. To add a
condition, write a function here and put it into ``_CONDITIONS``; ``htoolsctl explain`` then shows it as well.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ganeti_htools.model.wording import counted
from htoolsd.config.policies import WEEKDAYS, PolicySettings
from htoolsd.policies.memory import PolicyMemory, Rounds
from htoolsd.policies.remedy import Need, PlanBounds

_LONG_ROUNDS = 3  # a pause of more rounds begins a new streak
_SHORT_SECONDS = 60.0  # a look sooner after the last one belongs to the same round
_MOST_NAMES = 5  # in a reason
_NO_ROUNDS = Rounds()


@dataclass(frozen=True, slots=True)
class Situation:
    """The situation of a node group when a remedy is considered for it.

    ``now`` is seconds of the epoch, ``local`` the same as local time. ``bounds`` are for a plan.

    Nodes: ``drained`` by somebody; ``unfinished``, tagged by an hsqueeze that runs or was interrupted;
    ``silent``, without reports; ``updating``, whose figures are older than their instances. ``outdated``:
    the daemon's data is too old. ``paused`` is the end of the watcher's pause, 0 without one. ``jobs`` are
    unfinished jobs that touch the group. ``plan`` is running in the group; ``proposal`` is a policy's plan
    that waits to be executed. ``conflict`` says which other remedy acts, or would act.
    ``online`` are the nodes whose change begins the rounds anew.
    ``needs_moves``: the remedy does nothing without moves.
    """

    now: float
    local: datetime
    bounds: PlanBounds
    score: float
    need: Need
    drained: Sequence[str] = ()
    unfinished: Sequence[str] = ()
    silent: Sequence[str] = ()
    updating: Sequence[str] = ()
    outdated: bool = False
    paused: float = 0.0
    jobs: Sequence[int] = ()
    plan: str | None = None
    proposal: str | None = None
    conflict: str | None = None
    rounds: Rounds = _NO_ROUNDS
    online: Sequence[str] = ()
    needs_moves: bool = True

    @property
    def group(self) -> str:
        """The name of the group."""
        return self.bounds.group

    @property
    def quiet(self) -> bool:
        """Whether nothing goes on in the group."""
        busy = self.drained or self.unfinished or self.silent or self.updating or self.jobs or self.plan
        return not busy


def with_next_round(settings: PolicySettings, situation: Situation) -> Situation:
    """Return the situation with one more round counted.

    The streak begins anew when the group cannot be judged, when another hsqueeze runs in it, when the cause
    or the online nodes change, and after a long pause. Looks within a short time count as one round, so
    events and requests do not speed a policy up.
    """
    before, now = situation.rounds, situation.now
    rounds = before._replace(cause=situation.need.cause, online=",".join(situation.online))
    none = rounds._replace(streak=0, active=False, last=now)
    squeezed = situation.unfinished and situation.jobs and situation.plan is None
    if situation.outdated or situation.silent or situation.drained or squeezed:
        return replace(situation, rounds=none)
    if rounds != before or now - rounds.last > _LONG_ROUNDS * settings.every_seconds:
        rounds = none
    same = rounds.streak > 0 and now - rounds.last < min(_SHORT_SECONDS, settings.every_seconds / 2)
    streak = min(rounds.streak + (not same), settings.hold) if situation.need.begin else 0
    active = not situation.need.stop and (rounds.active or streak >= settings.hold)
    last = rounds.last if same else now
    return replace(situation, rounds=rounds._replace(streak=streak, active=active, last=last))


def obstacles(
    settings: PolicySettings, memory: PolicyMemory, situation: Situation
) -> Iterator[tuple[str, str]]:
    """Yield the conditions that hold a policy back, each with its reason; none if the policy may act."""
    for name, condition in _CONDITIONS.items():
        reason = condition(settings, memory, situation)
        if reason is not None:
            yield name, reason


def stop_reason(settings: PolicySettings, local: datetime) -> str | None:
    """Return why a running plan of a policy submits no more jobs; None if it continues."""
    if settings.mode != "act":
        return f"the policy's mode is {settings.mode}"
    return "the policy's hours are over" if _outside_hours(settings, local) else None


def _mode(settings: PolicySettings, _memory: PolicyMemory, _situation: Situation) -> str | None:
    return "the policy is off" if settings.mode == "off" else None


def _failures(settings: PolicySettings, memory: PolicyMemory, situation: Situation) -> str | None:
    failed, error, rests_until = memory.failures_of(situation.group)
    if failed >= settings.failures:
        return f"switched off after {counted(failed, 'failed plan')}; the last error: {error}"
    if situation.now < rests_until:
        return f"pauses for {rests_until - situation.now:.0f} s after a failed plan: {error}"
    return None


def _hours(settings: PolicySettings, _memory: PolicyMemory, situation: Situation) -> str | None:
    return _outside_hours(settings, situation.local)


def _outside_hours(settings: PolicySettings, local: datetime) -> str | None:
    minute = f"{local:%H:%M}"
    if not settings.within_hours(minute):
        return f"it is {minute}, not within {settings.hours}"
    night = settings.after_midnight(minute)
    day = WEEKDAYS[(local.weekday() - night) % len(WEEKDAYS)]
    if not settings.weekdays or day in settings.weekdays:
        return None
    return f"{'this is the night of' if night else 'today is'} {day}, not {' or '.join(settings.weekdays)}"


def _data(_settings: PolicySettings, _memory: PolicyMemory, situation: Situation) -> str | None:
    if situation.outdated:
        return "the daemon's data about the cluster is too old"
    if situation.updating:
        return f"instances have come or gone; new figures are awaited from {_some(situation.updating)}"
    return None


def _silent(_settings: PolicySettings, _memory: PolicyMemory, situation: Situation) -> str | None:
    return f"nodes do not report: {_some(situation.silent)}" if situation.silent else None


def _drained(_settings: PolicySettings, _memory: PolicyMemory, situation: Situation) -> str | None:
    return f"nodes are drained: {_some(situation.drained)}" if situation.drained else None


def _watcher(_settings: PolicySettings, _memory: PolicyMemory, situation: Situation) -> str | None:
    seconds = situation.paused - situation.now
    return f"the watcher is paused for another {seconds:.0f} s" if seconds > 0 else None


def _jobs(_settings: PolicySettings, _memory: PolicyMemory, situation: Situation) -> str | None:
    return f"unfinished jobs: {_some([str(job) for job in situation.jobs])}" if situation.jobs else None


def _plan(settings: PolicySettings, _memory: PolicyMemory, situation: Situation) -> str | None:
    if situation.plan is not None:
        return f"plan {situation.plan} is running"
    if situation.proposal is not None and settings.mode == "propose":
        return f"plan {situation.proposal} waits for htoolsctl execute"
    return None


def _budget(settings: PolicySettings, memory: PolicyMemory, situation: Situation) -> str | None:
    rest = memory.rest_of_day(settings, situation.now)
    if not situation.needs_moves or (rest.moves and rest.mib):
        return None
    return f"the day's budget is spent: moves left: {rest.moves}, MiB left: {rest.mib}"


def _conflict(_settings: PolicySettings, _memory: PolicyMemory, situation: Situation) -> str | None:
    return situation.conflict


def _hold(settings: PolicySettings, _memory: PolicyMemory, situation: Situation) -> str | None:
    if situation.rounds.active:
        return None
    streak, why = situation.rounds.streak, situation.need.why
    return f"{why}, for {streak} of {settings.hold} rounds" if streak else why


Condition = Callable[[PolicySettings, PolicyMemory, Situation], str | None]  # the reason, None for none

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
    "others": _conflict,
    "budget": _budget,
    "hold": _hold,
}


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
