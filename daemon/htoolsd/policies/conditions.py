"""Conditions that block a policy in a node group, and hysteresis. Pure functions over plain data.

A policy begins after ``hold`` rounds in a row with a reason, and goes on until the need says stop. To add a
condition, put it into :func:`conditions`; ``htoolsctl explain`` then shows it as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ganeti_htools.model.hours import read_hours
from ganeti_htools.model.wording import counted, moment
from htoolsd.config.policies import WEEKDAYS, PolicySettings
from htoolsd.policies.memory import PolicyMemory, Rounds
from htoolsd.policies.remedy import GroupFacts, Need, Remedy

_LONG_ROUNDS = 3  # a pause of more rounds begins a new streak
_SHORT_SECONDS = 60.0  # a look sooner after the last one belongs to the same round
_MOST_NAMES = 5  # in a reason
_NO_ROUNDS = Rounds()


@dataclass(frozen=True, slots=True)
class Situation:
    """The situation of a node group when a remedy is considered for it.

    ``memory`` is that of the remedy's policy. ``local`` is the local time.

    Nodes: ``drained`` by somebody; ``unfinished``, tagged by an hsqueeze that runs or was interrupted;
    ``silent``, without reports; ``updating``, whose figures are older than their instances. ``outdated``:
    the daemon's data is too old. ``paused`` is the end of the watcher's pause, 0 without one. ``jobs`` are
    unfinished jobs that touch the group. ``plan`` is running in the group; ``proposal`` is a policy's plan
    that waits to be executed. ``conflict`` says which other remedy acts, or would act.
    ``online`` are the nodes whose change begins the rounds anew. ``idle_groups`` are other groups in which
    nothing goes on.
    """

    remedy: Remedy[Any]
    memory: PolicyMemory
    facts: GroupFacts
    local: datetime
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
    idle_groups: Sequence[str] = ()

    @property
    def settings(self) -> PolicySettings:
        """The settings of the policy."""
        settings: PolicySettings = self.remedy.settings
        return settings

    @property
    def group(self) -> str:
        """The name of the group."""
        return self.facts.group

    @property
    def now(self) -> float:
        """Seconds of the epoch."""
        return self.facts.now

    @property
    def idle(self) -> bool:
        """Whether nothing goes on in the group, and nothing is needed."""
        busy = self.drained or self.unfinished or self.silent or self.updating or self.jobs or self.plan
        return not (busy or self.need.begin)


def with_next_round(situation: Situation) -> Situation:
    """Return the situation with one more round counted.

    The streak begins anew when the group cannot be judged, when another hsqueeze runs in it, when the cause
    or the online nodes change, and after a long pause. Looks within a short time count as one round, so
    events and requests do not speed a policy up.
    """
    settings, before, now = situation.settings, situation.rounds, situation.now
    rounds = before._replace(cause=situation.need.cause, online=",".join(situation.online))
    none = rounds._replace(streak=0, active=False, last=now, nodes={})
    squeezed = situation.unfinished and situation.jobs and situation.plan is None
    if situation.outdated or situation.silent or situation.drained or squeezed:
        return replace(situation, rounds=none)
    if rounds != before or now - rounds.last > _LONG_ROUNDS * settings.every_seconds:
        rounds = none
    same = rounds.streak > 0 and now - rounds.last < min(_SHORT_SECONDS, settings.every_seconds / 2)
    streak = min(rounds.streak + (not same), settings.hold) if situation.need.begin else 0
    nodes = {
        name: min(rounds.nodes.get(name, 0) + (not same), settings.hold) for name in situation.need.nodes
    }
    streak = max(nodes.values(), default=streak)
    active = not situation.need.stop and ((rounds.active and not nodes) or streak >= settings.hold)
    last = rounds.last if same else now
    return replace(situation, rounds=rounds._replace(streak=streak, active=active, last=last, nodes=nodes))


def conditions(situation: Situation) -> dict[str, str | None]:
    """Return the reason of each condition that holds a policy back; None for a condition that does not."""
    settings, pause = situation.settings, situation.paused - situation.now
    silent, drained = _some(situation.silent), _some(situation.drained)
    jobs = _some([str(job) for job in situation.jobs])
    return {
        "mode": "the policy is off" if settings.mode == "off" else None,
        "failures": _failures(situation),
        "hours": _outside_hours(settings, situation.local),
        "data": _data(situation),
        "silent": f"nodes do not report: {silent}" if silent else None,
        "drained": f"nodes are drained: {drained}" if drained else None,
        "watcher": f"the watcher is paused for another {pause:.0f} s" if pause > 0 else None,
        "jobs": f"unfinished jobs: {jobs}" if jobs else None,
        "plan": _plan(situation),
        "others": situation.conflict,
        "budget": _budget(situation),
        "dismissed": _dismissed(situation),
        "hold": None if situation.rounds.active else _hold(situation),
    }


def obstacles(situation: Situation) -> list[tuple[str, str]]:
    """Return the conditions that block a policy, each with its reason; none if the policy may act."""
    return [(name, why) for name, why in conditions(situation).items() if why is not None]


def stop_reason(settings: PolicySettings, local: datetime) -> str | None:
    """Return why a running plan of a policy submits no more jobs; None if it continues."""
    if settings.mode != "act":
        return f"the policy's mode is {settings.mode}"
    return "the policy's hours are over" if _outside_hours(settings, local) else None


def _failures(situation: Situation) -> str | None:
    last = situation.memory.failures_of(situation.group)
    if last.failed >= situation.settings.failures:
        return f"switched off after {counted(last.failed, 'failed plan')}; the last error: {last.error}"
    if situation.now < last.rests_until:
        return f"pauses for {last.rests_until - situation.now:.0f} s after a failed plan: {last.error}"
    return None


def _outside_hours(settings: PolicySettings, local: datetime) -> str | None:
    minute, hours = 60 * local.hour + local.minute, read_hours(settings.hours or "0-24")
    if hours.minutes_until(minute):
        return f"it is {local:%H:%M}, not within {settings.hours}"
    night = hours.began_yesterday(minute)
    day = WEEKDAYS[(local.weekday() - night) % len(WEEKDAYS)]
    if not settings.weekdays or day in settings.weekdays:
        return None
    return f"{'this is the night of' if night else 'today is'} {day}, not {' or '.join(settings.weekdays)}"


def _data(situation: Situation) -> str | None:
    if situation.outdated:
        return "the daemon's data about the cluster is too old"
    if situation.updating:
        return f"instances have come or gone; new figures are awaited from {_some(situation.updating)}"
    return None


def _plan(situation: Situation) -> str | None:
    if situation.plan is not None:
        return f"plan {situation.plan} is running"
    if situation.proposal is not None and situation.settings.mode == "propose":
        return f"plan {situation.proposal} waits for htoolsctl execute"
    return None


def _budget(situation: Situation) -> str | None:
    rest = situation.memory.rest_of_day(situation.settings, situation.now)
    if not situation.remedy.needs_moves or (rest.moves and rest.mib):
        return None
    return f"the day's budget is spent: moves left: {rest.moves}, MiB left: {rest.mib}"


def _dismissed(situation: Situation) -> str | None:
    until = situation.memory.dismissed.get(situation.group, 0.0)
    if situation.now >= until or situation.facts.n1:
        return None
    return f"nobody wants it until {moment(until)}, unless N+1 is lost"


def _hold(situation: Situation) -> str:
    streak, why = situation.rounds.streak, situation.need.why
    return f"{why}, for {streak} of {situation.settings.hold} rounds" if streak else why


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
