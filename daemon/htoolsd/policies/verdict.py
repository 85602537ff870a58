"""Decisions of policies, and reports about a policy as JSON. Pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from htoolsd.config.policies import PolicySettings
from htoolsd.history.entries import Document, HistoryEntry, moves_and_names
from htoolsd.policies.memory import PolicyMemory
from htoolsd.policies.remedies import POLICIES
from htoolsd.policies.squeeze import NO_STANDBY

OUTCOMES = HELD, WOULD, PROPOSED, BEGUN, FAILED = "skipped", "would act", "proposed", "begun", "failed"
_SUMMARY = ("time", "remedy", "group", "outcome", "reason")


@dataclass(frozen=True, slots=True)
class PolicyDecision(HistoryEntry):
    """The decision of a policy about a node group, and its reason.

    ``group`` is empty when the cluster could not be judged. ``remedy`` is the title of the remedy.
    ``outcome`` is "skipped", "would act", "proposed", "begun" or "failed". ``plan`` is the id of the new
    plan, ``moves`` are its moves, ``powered`` the nodes that it powers down or up.

    ``since`` compares the last decision in the mode shadow with the present: its time, the expected score,
    and the instances that have moved meanwhile.
    """

    kind = "policy"
    policy: str
    remedy: str
    mode: str
    trigger: str
    group: str
    outcome: str
    reason: str
    score: Mapping[str, float | None]
    plan: str | None = None
    moves: tuple[Mapping[str, Any], ...] = ()
    powered: tuple[str, ...] = ()
    since: Mapping[str, Any] | None = None

    def details(self) -> Document:
        facts = asdict(self)
        del facts["time"]
        return facts | moves_and_names([{**move, "status": "not submitted"} for move in self.moves])


def since_shadow(last: PolicyDecision | None, moved: Mapping[str, float]) -> dict[str, Any] | None:
    """Compare the last decision with the present; None unless the policy would have acted.

    ``moved`` has the times of moves by instance.
    """
    if last is None or last.outcome != WOULD:
        return None
    instances = sorted(name for name, when in moved.items() if when >= last.time)
    return {"time": last.time, "expected": last.score["after"], "moved": instances}


def policy_to_json(
    name: str,
    settings: PolicySettings,
    memory: PolicyMemory,
    last: Sequence[PolicyDecision],
    due: float | None,
    now: float,
) -> dict[str, Any]:
    """Return a policy as JSON. ``due`` is the time of its next round."""
    return {
        "name": name,
        "tool": POLICIES[name][0].tool,
        "mode": settings.mode,
        "last": [asdict(decision) for decision in last],
        "next": due,
        "left": memory.rest_of_day(settings, now)._asdict(),
        "failed": memory.worst.failed,
        "error": memory.worst.error or None,
        "off": bool(memory.groups_off(settings)),
    }


def policy_summary(
    name: str, settings: PolicySettings, memory: PolicyMemory, last: Sequence[PolicyDecision], now: float
) -> dict[str, Any]:
    """Return a policy's mode, health and last decision as JSON.

    Of the decisions of the last round, one that was not skipped is preferred. ``off`` are the node groups
    in which failed plans have switched the policy off. ``lacking`` are the node
    groups that lack minimal resources although all their standby nodes are up.
    """
    begin = max((each.time for each in last), default=now) - settings.every_seconds / 2
    latest = (each for each in last if each.time > begin)
    newest = max(latest, key=lambda each: (each.outcome != HELD, each.time), default=None)
    return {
        "name": name,
        "mode": settings.mode,
        "health": memory.health(settings, now),
        "error": memory.worst.error or None,
        "off": memory.groups_off(settings),
        "last": newest and {key: getattr(newest, key) for key in _SUMMARY},
        "lacking": [each.group for each in last if each.reason == NO_STANDBY],
    }
