"""What a policy remembers: what it has spent, what failed, and how long there has been a reason to act.

Plain data and pure functions; times are seconds of the epoch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ganeti_htools.execution.shape import Shape, fits
from htoolsd.policies.settings import Settings

DAY = 86400.0


class Spent(NamedTuple):
    """What a plan takes of the budgets: when it began, how many moves it makes and how many MiB it copies."""

    time: float
    moves: int
    mib: int


class Room(NamedTuple):
    """How much more may be done: moves, and MiB."""

    moves: int
    mib: int


class Rounds(NamedTuple):
    """For how many rounds in a row there was a reason in a group, no more than it takes; whether it is being
    acted upon; when the last round was; and when there was last acted, or would have been.
    """

    over: int = 0
    working: bool = False
    last: float = 0.0
    acted: float = 0.0


@dataclass(slots=True)
class Memory:
    """What one policy remembers. ``failed`` are plans that failed in a row, ``error`` is why the last one
    did, ``rests_until`` when it may go on. ``rounds`` are by what is done (the title of a remedy) and node
    group.
    """

    spent: list[Spent] = field(default_factory=list)
    failed: int = 0
    error: str = ""
    rests_until: float = 0.0
    rounds: dict[str, dict[str, Rounds]] = field(default_factory=dict)

    def of(self, title: str, group: str) -> Rounds:
        """The rounds of a remedy in a group."""
        return self.rounds.get(title, {}).get(group, Rounds())

    def note(self, title: str, group: str, rounds: Rounds) -> None:
        """Remember the rounds of a remedy in a group."""
        self.rounds.setdefault(title, {})[group] = rounds

    def spend(self, spent: Spent) -> None:
        """Count a plan that is about to begin, and forget what does not count any more."""
        self.spent = [each for each in self.spent if each.time > spent.time - DAY] + [spent]

    def left(self, settings: Settings, now: float) -> Room:
        """What is left of the day's budgets."""
        recent = [each for each in self.spent if each.time > now - DAY]
        moves, mib = sum(each.moves for each in recent), sum(each.mib for each in recent)
        return Room(max(0, settings.moves_per_day - moves), max(0, settings.mib_per_day - mib))

    def room(self, settings: Settings, now: float) -> Room:
        """What the next plan may do."""
        left = self.left(settings, now)
        return Room(min(settings.max_moves, left.moves), min(settings.max_mib, left.mib))

    def fail(self, settings: Settings, now: float, error: str) -> None:
        """Count a plan that failed."""
        self.failed += 1
        self.error = error
        self.rests_until = now + self._pause(settings)

    def _pause(self, settings: Settings) -> float:
        return settings.back_off_seconds * 2.0 ** min(self.failed - 1, 10)

    def not_after(self, now: float, settings: Settings) -> None:
        """Take what was later than now for what is now: the clock was wrong then."""
        self.spent = [each._replace(time=min(each.time, now)) for each in self.spent]
        self.rests_until = min(self.rests_until, now + self._pause(settings))
        self.rounds = {
            title: {
                group: each._replace(last=min(each.last, now), acted=min(each.acted, now))
                for group, each in groups.items()
            }
            for title, groups in self.rounds.items()
        }

    def off(self, settings: Settings) -> bool:
        """Whether plans that failed have switched the policy off."""
        return self.failed >= settings.failures

    def health(self, settings: Settings, now: float) -> str:
        """How the policy is, in a word or two."""
        if self.off(settings):
            return "switched off"
        return "pauses" if self.failed and now < self.rests_until else "healthy"

    def forget_failures(self) -> None:
        """Count from 0 again."""
        self.failed, self.error, self.rests_until = 0, "", 0.0

    def document(self) -> dict[str, Any]:
        """What has to survive a restart, as JSON."""
        return {
            "spent": [list(each) for each in self.spent],
            "failed": self.failed,
            "error": self.error,
            "rests_until": self.rests_until,
            "rounds": {
                title: {group: list(each) for group, each in rounds.items()}
                for title, rounds in self.rounds.items()
            },
        }


class Rests(NamedTuple):
    """When instances have moved, and when nodes were powered or came back, by name."""

    moved: dict[str, float]
    switched: dict[str, float]


def without(
    since: Mapping[str, float], names: Iterable[str], when: float, before: Mapping[str, float]
) -> dict[str, float]:
    """``since`` without what it says of these names of that time: it is again as it was before."""
    taken = [name for name in names if since.get(name) == when]
    left = {name: time for name, time in since.items() if name not in taken}
    return left | {name: before[name] for name in taken if name in before}


def resting(since: Mapping[str, float], settings: Settings, now: float) -> list[str]:
    """Of instances that have moved, or nodes that came back (by name: when), those that stay for now."""
    return [name for name, when in since.items() if when > now - settings.cool_down_seconds]


def _number(value: object) -> bool:
    return type(value) in (int, float)


MEMORY: Shape = {
    "spent": [[_number]],
    "failed": int,
    "error": str,
    "rests_until": _number,
    "rounds": dict,
}
_ROUNDS: Shape = [(bool, _number)]


def restored(document: Mapping[str, Any]) -> Memory:
    """What was remembered. Raises ValueError, TypeError."""
    if not fits(document, MEMORY):
        raise ValueError(f"expected {', '.join(MEMORY)}, and each of its type")
    told: Mapping[str, Mapping[str, Any]] = document["rounds"]
    if not all(fits(each, _ROUNDS) for groups in told.values() for each in groups.values()):
        raise ValueError("expected rounds to be numbers, and whether there is acted upon them")
    spent: Iterable[Any] = document["spent"]
    rounds = {
        title: {group: Rounds(*each) for group, each in groups.items()} for title, groups in told.items()
    }
    plain = {key: document[key] for key in ("failed", "error", "rests_until")}
    return Memory([Spent(*each) for each in spent], **plain, rounds=rounds)
