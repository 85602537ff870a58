"""Plans to power nodes down or up, and wishes for them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.moves import Move
from ganeti_htools.model.state import State

# An unplaced instance by group (row); each node of the group keeps room for it.
ReserveByGroup = Sequence[Instance]

Progress = Callable[[str], None]  # called often with the progress; may raise to stop


def silent(_text: str) -> None:
    """Show no progress."""


class Action(Enum):
    """The action on the nodes of a plan."""

    NOTHING = "nothing"
    OFFLINE = "offline"
    ONLINE = "online"


@dataclass(frozen=True, slots=True)
class Phase:
    """Nodes (rows) that are powered down together after their moves, or up before them.

    Nodes are drained before the first move that empties them. ``late`` nodes are drained after the last
    mirrored instance left, since N+1 needs them until then.
    """

    action: Action
    nodes: tuple[int, ...]
    steps: tuple[Move, ...]
    late: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """Nodes to power down or up and their moves, in phases; and the state afterwards.

    Nodes are powered up only in the first phase. A phase begins after the previous one ended. ``enough`` is
    False if even all standby nodes do not give the requested room. ``obstacles`` are the reasons why tried
    nodes stay up, ``refused`` those against moves of instances (rows) that would take redundancy.
    """

    phases: tuple[Phase, ...]
    state: State
    enough: bool = True
    obstacles: Mapping[int, str] = field(default_factory=dict)
    refused: Mapping[int, str] = field(default_factory=dict)

    @property
    def action(self) -> Action:
        """The first action; others follow only if nodes powered up replace others."""
        return self.phases[0].action if self.phases else Action.NOTHING

    @property
    def nodes(self) -> tuple[int, ...]:
        """The rows of the action's nodes: last phase first, since nodes that joined last come first."""
        return self._of(self.action)

    @property
    def replaced(self) -> tuple[int, ...]:
        """The rows of nodes powered down after others were powered up."""
        return self._of(Action.OFFLINE) if self.action is Action.ONLINE else ()

    @property
    def steps(self) -> tuple[Move, ...]:
        """All moves, in order."""
        return tuple(step for phase in self.phases for step in phase.steps)

    def _of(self, action: Action) -> tuple[int, ...]:
        phases = [phase for phase in reversed(self.phases) if phase.action is action]
        return tuple(node for phase in phases for node in phase.nodes)


class AllowedMoves(Enum):
    """The instances that may leave nodes to be powered down.

    * POOLS: instances on storage that all nodes see.
    * DRBD: mirrored instances too.
    * ALL: plain and file instances too; they are stopped while they are copied.
    """

    POOLS = "pools"
    DRBD = "drbd"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Wishes:
    """Nodes (rows) to power down first, nodes to keep with the reasons, the most nodes (None: any), the
    allowed moves, and groups (rows) that stay as they are.
    """

    prefer: frozenset[int] = frozenset()
    never: Mapping[int, str] = field(default_factory=dict)
    most: int | None = None
    allowed: AllowedMoves = AllowedMoves.POOLS
    unchanged: Collection[int] = ()


ANY = Wishes()
