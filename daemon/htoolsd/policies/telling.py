"""What is told of a policy: its settings, what it remembers, and what it decided last. Pure functions."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from htoolsd.policies.decision import HELD, Decision
from htoolsd.policies.memory import Memory
from htoolsd.policies.order import POLICIES
from htoolsd.policies.settings import Settings

_SHORT = ("time", "remedy", "group", "outcome", "reason")


def told(
    name: str, settings: Settings, memory: Memory, last: Sequence[Decision], due: float | None, now: float
) -> dict[str, Any]:
    """A policy as JSON. ``due`` is when it is considered next."""
    return {
        "name": name,
        "tool": POLICIES[name][0].tool,
        "mode": settings.mode,
        "last": [asdict(decision) for decision in last],
        "next": due,
        "left": memory.left(settings, now)._asdict(),
        "failed": memory.failed,
        "error": memory.error or None,
        "off": memory.off(settings),
    }


def shortly(
    name: str, settings: Settings, memory: Memory, last: Sequence[Decision], now: float
) -> dict[str, Any]:
    """A policy in short: its mode, how it is, and what it decided last, if anything. Of what it decided about
    several groups, or several things that it does, in its last round, this is one that was not held back.
    """
    begin = max((each.time for each in last), default=now) - settings.every_seconds / 2
    latest = (each for each in last if each.time > begin)
    newest = max(latest, key=lambda each: (each.outcome != HELD, each.time), default=None)
    return {
        "name": name,
        "mode": settings.mode,
        "health": memory.health(settings, now),
        "error": memory.error or None,
        "last": newest and {key: getattr(newest, key) for key in _SHORT},
    }
