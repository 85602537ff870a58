"""The possible target groups of instances, independent of room."""

from typing import Any

from ganeti_htools.engine.groups.partitions import exchanges, refusal
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.model.state import State


class GroupTargets:
    """The groups open to instances by the rules. Moves do not change them, so results are cached."""

    def __init__(self, state: State, rules: RegroupingRules) -> None:
        self._state, self._groups = state, rules.groups
        self._exchanges = {(each.source, each.target): each for each in exchanges(state)}
        self._kinds: dict[Any, int] = {}
        self._kind_of: dict[int, int] = {}
        self._refused: dict[tuple[int, int], str | None] = {}
        self._targets: dict[tuple[tuple[int, ...], int], list[int]] = {}

    def refusal(self, index: int, home: int, group: int) -> str | None:
        """Return the reason why an instance of group ``home`` cannot be in ``group`` (rows), or None."""
        pair = self._exchanges.get((home, group))
        if group not in self._groups or (pair is None and group != home):
            return "it is left out"
        if group == home:
            return None
        return (pair and pair.obstacle) or self._refusal(index, group)

    def _refusal(self, index: int, group: int) -> str | None:
        key = group, self._kind(index)
        if key not in self._refused:
            self._refused[key] = refusal(self._state, self._state.instance(index), group)
        return self._refused[key]

    def _kind(self, index: int) -> int:
        """Return a number shared by instances that the same groups refuse."""
        if index not in self._kind_of:
            row = self._state.cluster.instances[index]
            networks = frozenset(nic.network for nic in row.nics)
            kind = self._state.wants[index].tobytes(), row.demand, networks
            self._kind_of[index] = self._kinds.setdefault(kind, len(self._kinds))
        return self._kind_of[index]

    def of(self, index: int, homes: tuple[int, ...]) -> list[int]:
        """Return the groups (rows) open to an instance with nodes in the groups ``homes``.

        An instance between two groups may go to either of them as well.
        """
        key = homes, self._kind(index)
        if key not in self._targets:
            others = sorted(self._groups - set(homes[:1] if len(homes) < 2 else ()))
            found = [group for group in others if self.refusal(index, homes[0], group) is None]
            self._targets[key] = found
        return list(self._targets[key])

    def neighbours(self, group: int) -> list[int]:
        """Return the groups (rows) that may take instances of a group (row)."""
        return [
            each.target
            for each in self._exchanges.values()
            if each.source == group and each.obstacle is None and each.target in self._groups
        ]
