"""Moves of instances: Ganeti's operations, the kinds of moves (``hbal(1)``), and moves by name.

A move is a sequence of operations. The operations determine where the instance is afterwards, what is copied,
which migrations are needed, the opcodes, the commands and the reports.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.types import MirrorType

# Functions on nodes take whatever stands for a node: rows, arrays of rows, or names.
Node = Any


class Operation(Enum):
    """One operation of Ganeti on an instance. The value is its abbreviation in a list of steps."""

    FAILOVER = "f"  # primary and secondary change roles; an instance that runs is migrated
    FAILOVER_TO = "fa"  # to a new primary, on storage that all nodes see
    REPLACE_SECONDARY = "r"  # the disks are copied to a new secondary
    MOVE = "m"  # a plain or file instance is stopped and copied to a new primary

    @property
    def takes_node(self) -> bool:
        """Whether it brings the instance to a node that is new to it."""
        return self is not Operation.FAILOVER

    @property
    def copies_disks(self) -> bool:
        """Whether disks are copied; otherwise the instance itself goes, with its memory if it runs."""
        return self in (Operation.REPLACE_SECONDARY, Operation.MOVE)

    def nodes(self, primary: Node, secondary: Node, new: Node) -> tuple[Node, Node]:
        match self:
            case Operation.FAILOVER:
                return secondary, primary
            case Operation.FAILOVER_TO | Operation.MOVE:
                return new, secondary
            case Operation.REPLACE_SECONDARY:
                return primary, new


_FAIL_OVER, _FAIL_OVER_TO, _REPLACE, _MOVE = Operation


class MoveKind(Enum):
    """A kind of move: its title, its operations, and its plural.

    ``after`` says which of ``"primary"``, ``"secondary"`` and ``"new"`` are its nodes afterwards.
    """

    operations: tuple[Operation, ...]
    plural: str
    takes_node: bool  # whether it brings the instance to a node that is new to it
    copies_disks: bool
    after: tuple[str, str]
    to_primary: bool  # whether the new node becomes the primary
    keeps_primary: bool
    passes_secondary: bool  # whether the secondary is the primary only meanwhile

    def __new__(cls, title: str, operations: tuple[Operation, ...] = (), plural: str = "") -> "MoveKind":
        kind = object.__new__(cls)
        kind._value_, kind.operations, kind.plural = title, operations, plural
        kind.takes_node = any(operation.takes_node for operation in operations)
        kind.copies_disks = any(operation.copies_disks for operation in operations)
        kind.after = kind.nodes("primary", "secondary", "new")
        kind.to_primary, kind.keeps_primary = (kind.after[0] == each for each in ("new", "primary"))
        kind.passes_secondary = kind.to_primary and kind.after[1] == "secondary" and len(operations) > 1
        return kind

    FAILOVER = "failover", (_FAIL_OVER,), "failovers"
    FAILOVER_TO = "failover to", (_FAIL_OVER_TO,), "failovers to any node"
    REPLACE_SECONDARY = "replace secondary", (_REPLACE,), "replaced secondaries"
    REPLACE_AND_FAILOVER = (
        "replace secondary and fail over",  # the new node becomes primary
        (_REPLACE, _FAIL_OVER),
        "replaced secondaries with failover",
    )
    REPLACE_PRIMARY = (
        "replace primary",  # by way of the secondary, which stays one
        (_FAIL_OVER, _REPLACE, _FAIL_OVER),
        "replaced primaries",
    )
    FAILOVER_AND_REPLACE = (
        "fail over and replace secondary",  # the primary is left
        (_FAIL_OVER, _REPLACE),
        "failovers with replaced secondary",
    )
    MOVE = "move", (_MOVE,), "moves of stopped instances"

    @property
    def mirror(self) -> MirrorType:
        """The mirror type of the instances that this kind of move is for."""
        if _FAIL_OVER_TO in self.operations:
            return MirrorType.EXTERNAL
        return MirrorType.NONE if _MOVE in self.operations else MirrorType.INTERNAL

    @property
    def mirrored(self) -> bool:
        """Whether it is for instances with a secondary."""
        return self.mirror is MirrorType.INTERNAL

    def nodes(self, primary: Node, secondary: Node, new: Node) -> tuple[Node, Node]:
        for operation in self.operations:
            primary, secondary = operation.nodes(primary, secondary, new)
        return primary, secondary

    def transfers(self, primary: Node, secondary: Node, new: Node) -> list[tuple[Operation, Node, Node]]:
        """Return the transfers in order: operation, source, target.

        The instance itself moves, or its disks when the secondary is replaced, from its node at that moment.
        """
        result = []
        for operation in self.operations:
            source = primary
            primary, secondary = operation.nodes(primary, secondary, new)
            target = secondary if operation is _REPLACE else primary
            result.append((operation, source, target))
        return result

    def copied_from(self, primary: Node, secondary: Node) -> Node:
        """The node from which disks are copied, which stays; None if none are."""
        transfers = self.transfers(primary, secondary, None)
        return next((source for operation, source, _ in transfers if operation is _REPLACE), None)

    def parts(self, node: int) -> "tuple[MovePart, ...]":
        """Return its operations on an instance that gets a new node (row)."""
        return tuple(MovePart(each, node if each.takes_node else NOWHERE) for each in self.operations)

    def migrations(self, primary: Node, secondary: Node, new: Node) -> list[tuple[Node, Node]]:
        """From where to where the instance itself goes, in order."""
        transfers = self.transfers(primary, secondary, new)
        return [(source, target) for operation, source, target in transfers if not operation.copies_disks]


KINDS = {mirror: tuple(kind for kind in MoveKind if kind.mirror is mirror) for mirror in MirrorType}
KIND = {kind.operations[0]: kind for kind in MoveKind if len(kind.operations) == 1}  # of one operation
RANK = {kind: rank for rank, kind in enumerate(MoveKind)}

_KINDS = {kind.operations: kind for kind in MoveKind}
_BOTH = "replace both nodes"


def as_carried_out(words: str, commands: Iterable[str]) -> str:
    """Return the words for a move: a failover of a running instance is a live migration.

    ``commands`` are those of gnt-instance that carry the move out.
    """
    if not any("migrate" in command.split()[:2] for command in commands):
        return words
    return words.replace("failover", "migration").replace("fail over", "migrate")


TITLES = frozenset(
    as_carried_out(title, commands)
    for title in (*(kind.value for kind in MoveKind), _BOTH)
    for commands in ((), ("migrate",))
)


def title_of(operations: Iterable[Operation]) -> str:
    """Return the title of a sequence of operations on one instance."""
    kind = _KINDS.get(tuple(operations))
    return _BOTH if kind is None else str(kind.value)


@dataclass(frozen=True, slots=True)
class MovePart:
    """One operation of a move by rows; ``node`` is the new node, NOWHERE if the operation takes none."""

    operation: Operation
    node: int = NOWHERE


@dataclass(frozen=True, slots=True)
class Move:
    """A move of an instance by rows: its parts, and the nodes afterwards, primary first.

    ``score`` is the score afterwards in a balancing plan. ``with_next``: the next move is that of another
    member of the instance's set, within the same jobset.
    """

    instance: int
    parts: tuple[MovePart, ...]
    nodes: tuple[int, ...]
    score: float = 0.0
    with_next: bool = False

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations in order."""
        return tuple(part.operation for part in self.parts)

    @property
    def kind(self) -> MoveKind:
        """The kind of move, in a balancing plan."""
        return _KINDS[self.operations]

    @property
    def node(self) -> int:
        """The node of a balancing plan's move that is new to the instance; NOWHERE if none is."""
        return next((part.node for part in self.parts if part.operation.takes_node), NOWHERE)


@dataclass(frozen=True, slots=True)
class NamedMove:
    """A move by name, valid on any state of the cluster.

    ``title`` is one of TITLES. ``parts`` are the operations, each with its new node if it takes one. ``was``
    and ``now`` are the nodes before and after the move, primary first. The rest is as in :class:`Move`.
    """

    instance: str
    title: str
    parts: tuple[tuple[Operation, str | None], ...]
    was: tuple[str, ...]
    now: tuple[str, ...]
    score: float = 0.0
    with_next: bool = False

    @classmethod
    def of(
        cls,
        instance: str,
        kind: MoveKind,
        node: str | None,
        was: tuple[str, ...],
        now: tuple[str, ...],
        score: float = 0.0,
        with_next: bool = False,
    ) -> "NamedMove":
        """Make a move of a kind to a new node, None if the kind takes none."""
        parts = tuple((each, node if each.takes_node else None) for each in kind.operations)
        return cls(instance, kind.value, parts, was, now, score, with_next)

    @property
    def kind(self) -> MoveKind:
        """The kind of move, in a balancing plan."""
        return MoveKind(self.title)

    @property
    def node(self) -> str | None:
        """The node of a balancing plan's move that is new to the instance; None if none is."""
        return next((node for _, node in self.parts if node is not None), None)
