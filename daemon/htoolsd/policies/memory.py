"""Memory of the policies: spent budgets, failures, rounds and cool-downs, and the file that keeps them.

Invariant: what a plan takes of a budget is on disk before the plan begins, so budgets and cool-downs hold
after a crash. Each step keeps it:

* :meth:`PolicyMemories.charge` counts the whole plan in memory, :meth:`MemoryFile.save` writes that or
  raises. Only then may the plan begin. A crash in between spends budget for nothing, which is safe.
* :meth:`PolicyMemories.refund` is allowed only while no job of the plan has been submitted.
* :meth:`PolicyMemories.release` ends the cool-downs of instances and nodes that an ended plan did not reach.
  The budget stays spent.

Times are seconds of the epoch. Only :class:`MemoryFile` has effects.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import structlog
import trio

from ganeti_htools.files import read_regular_file, write_text
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.records import from_bytes, refuse_newer, to_text
from htoolsd.config.policies import PolicySettings
from htoolsd.damaged_files import set_aside
from htoolsd.policies.names import Uuids
from htoolsd.store.state_copies import StateCopies
from htoolsd.threads import Replacements, effect

_log = structlog.get_logger()

DAY = 86400.0
_VERSION = 1
_LARGEST = 64 << 20  # bytes
_MAX_DOUBLINGS = 10  # of the pause after plans that failed


class Expense(NamedTuple):
    """The share of a plan in the budgets: when the plan began, its moves, the copied MiB, and its id."""

    time: float
    moves: int
    mib: int
    run: str = ""


class Budget(NamedTuple):
    """The moves and MiB that may still be spent."""

    moves: int
    mib: int


class Rounds(NamedTuple):
    """The rounds of a remedy in one node group.

    ``streak`` counts rounds in a row with a reason to act, up to the policy's ``hold``. ``active`` is whether
    the policy acts on the reason. ``last`` is the time of the last round, ``acted`` the time when the remedy
    last acted or would have acted. All rounds of a streak have the same ``cause`` and the same ``online``
    nodes. ``nodes`` has the streak of each node that is the reason.
    """

    streak: int = 0
    active: bool = False
    last: float = 0.0
    acted: float = 0.0
    cause: str = ""
    online: str = ""
    nodes: Mapping[str, int] = {}


class Failures(NamedTuple):
    """The plans that failed in a row in a node group: their number, and the error of the last one.

    The policy pauses there until ``rests_until``.
    """

    failed: int
    error: str
    rests_until: float


_NO_FAILURES = Failures(0, "", 0.0)
_ANYWHERE = ""  # the group of failures that older daemons counted for all groups


@dataclass(slots=True)
class PolicyMemory:
    """Memory of one policy.

    ``failures`` are by name of the node group, ``rounds`` by title of the remedy and name of the group.
    ``dismissed`` has the time until which an administrator wants nothing of the policy, by group.
    """

    spent: list[Expense] = field(default_factory=list)
    failures: dict[str, Failures] = field(default_factory=dict)
    rounds: dict[str, dict[str, Rounds]] = field(default_factory=dict)
    dismissed: dict[str, float] = field(default_factory=dict)

    def rounds_of(self, title: str, group: str) -> Rounds:
        """Return the rounds of a remedy in a group."""
        return self.rounds.get(title, {}).get(group, Rounds())

    def note_action(self, title: str, groups: Iterable[str], now: float, nodes: Collection[str] = ()) -> None:
        """Remember that a remedy acts in these groups, or would act, and that instances leave ``nodes``."""
        for group in groups:
            before = self.rounds_of(title, group)
            rest = {name: streak for name, streak in before.nodes.items() if name not in nodes}
            self.rounds.setdefault(title, {})[group] = before._replace(acted=now, nodes=rest)

    def spend(self, expense: Expense) -> None:
        """Count a plan that is about to begin. Expenses of more than a day ago are dropped."""
        self.spent = [each for each in self.spent if each.time > expense.time - DAY] + [expense]

    def rest_of_day(self, settings: PolicySettings, now: float) -> Budget:
        """Return the rest of the day's budget."""
        recent = [each for each in self.spent if each.time > now - DAY]
        moves, mib = sum(each.moves for each in recent), sum(each.mib for each in recent)
        return Budget(max(0, settings.moves_per_day - moves), max(0, settings.mib_per_day - mib))

    def plan_budget(self, settings: PolicySettings, now: float) -> Budget:
        """Return the budget of the next plan."""
        rest = self.rest_of_day(settings, now)
        return Budget(min(settings.max_moves, rest.moves), min(settings.max_mib, rest.mib))

    @property
    def worst(self) -> Failures:
        """The failures of the group with the most."""
        worst = max(self.failures.values(), key=lambda each: (each.failed, each.rests_until), default=None)
        return worst or _NO_FAILURES

    def failures_of(self, group: str) -> Failures:
        """Return the failures that hold the policy back in a group."""
        return max(self.failures.get(name, _NO_FAILURES) for name in (group, _ANYWHERE))

    def count_failure(self, settings: PolicySettings, now: float, error: str, group: str) -> None:
        """Count a plan that failed in a group, and pause there."""
        failed = self.failures_of(group).failed + 1
        self.failures[group] = Failures(failed, error, now + _pause(settings, failed))

    def clamp_times(self, now: float, settings: PolicySettings) -> None:
        """Replace times in the future by ``now``. They come from a clock that was wrong."""
        self.spent = [each._replace(time=min(each.time, now)) for each in self.spent]
        self.failures = {
            group: each._replace(rests_until=min(each.rests_until, now + _pause(settings, each.failed)))
            for group, each in self.failures.items()
        }
        self.rounds = {
            title: {
                group: each._replace(last=min(each.last, now), acted=min(each.acted, now))
                for group, each in groups.items()
            }
            for title, groups in self.rounds.items()
        }

    def groups_off(self, settings: PolicySettings) -> list[str]:
        """Return the groups in which failed plans have switched the policy off."""
        return [group for group, each in self.failures.items() if each.failed >= settings.failures]

    def health(self, settings: PolicySettings, now: float) -> str:
        """Return the policy's health: ``healthy``, ``pauses`` or ``switched off``."""
        if self.groups_off(settings):
            return "switched off"
        pauses = any(now < each.rests_until for each in self.failures.values())
        return "pauses" if pauses else "healthy"

    def keep_failures(self, groups: Collection[str]) -> None:
        """Forget the failed plans in all other groups."""
        kept = (_ANYWHERE, *groups)
        self.failures = {group: each for group, each in self.failures.items() if group in kept}

    def forget_failures(self, group: str) -> None:
        """Forget the failed plans in a group."""
        for name in (group, _ANYWHERE):
            self.failures.pop(name, None)


def _pause(settings: PolicySettings, failed: int) -> float:
    return settings.back_off_seconds * 2.0 ** min(failed - 1, _MAX_DOUBLINGS)


class Charge(NamedTuple):
    """The effect of :meth:`PolicyMemories.charge`: the expense, and the cool-downs before it."""

    policy: str
    expense: Expense
    moved: dict[str, float]
    switched: dict[str, float]


@dataclass(slots=True)
class PolicyMemories:
    """Memories of all policies by name, and the cool-downs that they share.

    ``moved`` has the time of the last move by instance, ``switched`` the time when a node was powered or came
    back. ``uuids`` are those of the objects that settings name (:mod:`htoolsd.policies.names`).
    """

    memories: dict[str, PolicyMemory] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)
    switched: dict[str, float] = field(default_factory=dict)
    uuids: Uuids = field(default_factory=dict)

    def forget(self, before: float) -> None:
        """Drop cool-downs that began before a time."""
        self.moved = {name: when for name, when in self.moved.items() if when > before}
        self.switched = {name: when for name, when in self.switched.items() if when > before}

    def clamp_times(self, now: float, settings: Mapping[str, PolicySettings]) -> None:
        """Replace times in the future by ``now``. They come from a clock that was wrong."""
        self.moved = {name: min(when, now) for name, when in self.moved.items()}
        self.switched = {name: min(when, now) for name, when in self.switched.items()}
        for name, memory in self.memories.items():
            memory.clamp_times(now, settings[name])

    def charge(self, policy: str, expense: Expense, instances: Iterable[str], nodes: Iterable[str]) -> Charge:
        """Count a plan that moves ``instances`` and powers ``nodes``; the result can undo that."""
        charge = Charge(policy, expense, self.moved, self.switched)
        self.memories[policy].spend(expense)
        self.moved = self.moved | dict.fromkeys(instances, expense.time)
        self.switched = self.switched | dict.fromkeys(nodes, expense.time)
        return charge

    def take_over(
        self,
        expenses: Iterable[tuple[str, Expense]],
        moved: Mapping[str, float],
        switched: Mapping[str, float],
    ) -> bool:
        """Count what other daemons have done; return whether any of it was unknown.

        Expenses come with the name of their policy. Plans that this memory knows count once.
        """
        before = self.moved, self.switched
        self.moved, self.switched = _latest(self.moved, moved), _latest(self.switched, switched)
        new = False
        for name, expense in expenses:
            memory = self.memories.get(name)
            if memory is not None and all(each.run != expense.run for each in memory.spent):
                memory.spent.append(expense)
                new = True
        return new or before != (self.moved, self.switched)

    def refund(self, charge: Charge) -> None:
        """Undo the charge of a plan that could not begin."""
        self.memories[charge.policy].spent.remove(charge.expense)
        self.release(charge, self.moved, self.switched)

    def release(self, charge: Charge, instances: Iterable[str], nodes: Iterable[str]) -> None:
        """End the cool-downs of instances and nodes that an ended plan did not reach."""
        when = charge.expense.time
        self.moved = cool_downs_before(self.moved, instances, when, charge.moved)
        self.switched = cool_downs_before(self.switched, nodes, when, charge.switched)


def _latest(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}}


def cool_downs_before(
    since: Mapping[str, float], names: Iterable[str], when: float, before: Mapping[str, float]
) -> dict[str, float]:
    """Return ``since`` with these names as they were ``before``, if their cool-down began at ``when``."""
    reset = {name for name in names if since.get(name) == when}
    rest = {name: time for name, time in since.items() if name not in reset}
    return rest | {name: before[name] for name in reset if name in before}


def resting(since: Mapping[str, float], settings: PolicySettings, now: float) -> list[str]:
    """Return the names (of instances or nodes) whose cool-down has not ended."""
    return [name for name, when in since.items() if when > now - settings.cool_down_seconds]


# The file


class _StoredMemory(NamedTuple):
    """The memory of a policy. The first failures are the worst; older daemons have counted only them."""

    spent: list[Expense]
    failed: int
    error: str
    rests_until: float
    failures: dict[str, Failures] | None
    rounds: dict[str, dict[str, Rounds]]
    dismissed: dict[str, float] | None = None


@dataclass(frozen=True, slots=True)
class _Stored:
    """The content of the file."""

    version: Annotated[int, refuse_newer(_VERSION)]
    policies: dict[str, _StoredMemory]
    moved: dict[str, float]
    switched: dict[str, float]
    uuids: Uuids | None = None


def _memory(stored: _StoredMemory) -> PolicyMemory:
    failures = stored.failures
    if failures is None:
        failures = {_ANYWHERE: Failures(stored.failed, stored.error, stored.rests_until)}
    failures = {group: each for group, each in failures.items() if each.failed}
    return PolicyMemory(stored.spent, failures, stored.rounds, stored.dismissed or {})


def content_of(memories: PolicyMemories) -> str:
    """Return the content of the file: JSON with a version."""
    stored = {
        name: _StoredMemory(each.spent, *each.worst, each.failures, each.rounds, each.dismissed)
        for name, each in memories.memories.items()
    }
    document = _Stored(_VERSION, stored, memories.moved, memories.switched, memories.uuids)
    lists = Expense, Rounds
    return to_text(document, lambda each: list(each) if isinstance(each, lists) else each._asdict())


def from_text(content: str | bytes) -> PolicyMemories:
    """Return the memories in the content of a file.

    Raises DataError for damaged content, HtoolsError for that of a newer htoolsd.
    """
    stored: _Stored = from_bytes(_Stored, content)
    memories = {name: _memory(each) for name, each in stored.policies.items()}
    return PolicyMemories(memories, stored.moved, stored.switched, stored.uuids or {})


def read(path: str) -> PolicyMemories:
    """Read the file; empty memories if it does not exist.

    A damaged file is renamed to ``PATH.damaged-TIME``. Raises HtoolsError for a file that cannot be read, and
    for one of a newer htoolsd.
    """
    try:
        content = read_regular_file(path, _LARGEST)
        try:
            return from_text(content)
        except DataError as error:
            copy, why = set_aside(path), str(error)
        _log.error("policy memory is damaged; policies start with an empty one", error=why, copy=copy)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise HtoolsError(f"{path}: {error.strerror}") from None
    except HtoolsError as error:
        raise HtoolsError(f"{path}: {error}") from None
    return PolicyMemories()


COPY = "policies"  # the name of the file's copy; plans have their ids


class MemoryFile:
    """The memories of the policies ``names``, and their file at ``path``.

    ``unreadable`` is the error of a file that could not be read. Then nothing is written, and policies hold
    back. ``complete``: what other daemons did is counted as well (:mod:`htoolsd.policies.succession`).
    """

    def __init__(self, path: str, names: Collection[str], copies: StateCopies | None = None) -> None:
        self._path = path
        self._copies = copies
        self.content = PolicyMemories({name: PolicyMemory() for name in names})
        self.unreadable: str | None = None
        self.dirty = False
        self.complete = False
        self._writing = trio.Lock()
        self._replacements = Replacements()

    async def load(self) -> None:
        """Read what earlier daemons wrote. Failures are logged."""
        try:
            found = await effect(read, self._path)
        except HtoolsError as error:
            self.unreadable = str(error)
            _log.error("policy memory cannot be read; policies do nothing", error=self.unreadable)
            return
        self._use(found)

    def adopt(self, content: str) -> None:
        """Use the memories of another daemon instead, from the content of its file. Failures are logged."""
        try:
            self._use(from_text(content))
        except HtoolsError as error:
            _log.error("policy memory of another daemon cannot be read", error=str(error))
        else:
            self.dirty = True

    def _use(self, found: PolicyMemories) -> None:
        names = self.content.memories
        known = {name: memory for name, memory in found.memories.items() if name in names}
        self.content = PolicyMemories(names | known, found.moved, found.switched, found.uuids)

    async def save(self) -> None:
        """Write the file. Raises HtoolsError."""
        async with self._writing:
            self.dirty = False
            try:
                content = content_of(self.content)
                await self._replacements.do(write_text, self._path, content)
            except BaseException:  # cancellation included
                self.dirty = True
                raise
            if self._copies is not None:
                self._copies.put(COPY, content)

    async def save_changes(self) -> None:
        """Write the file if its content has changed. Failures are logged."""
        if not self.dirty or self.unreadable is not None:
            return
        try:
            await self.save()
        except HtoolsError as error:
            _log.error("policy memory cannot be written", error=str(error))
