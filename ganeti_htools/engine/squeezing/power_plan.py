"""A plan to power nodes down or up, and what may be wished for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ganeti_htools.engine.balancing.balance import Step
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.state import State

# What has to be free on each node of a group, by the group's row: an instance that is not placed.
ReserveByGroup = Sequence[Instance]

# Called with how many candidates have been tried, and how many there are.
Progress = Callable[[int, int], None]


class Action(Enum):
    """What is to be done with the nodes of a plan."""

    NOTHING = "nothing"
    OFFLINE = "offline"
    ONLINE = "online"


@dataclass(frozen=True, slots=True)
class Phase:
    """Nodes (rows) that are powered down together once moves have emptied them, or up before, and the moves.

    Nodes are drained before the first move that empties them; those that are ``late`` once the last mirrored
    instance has left them, since until then N+1 takes them.
    """

    action: Action
    nodes: tuple[int, ...]
    steps: tuple[Step, ...]
    late: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """The nodes to power down or up and the moves that go with it, in phases; and the state afterwards.

    Nodes are powered up in the first phase, if at all. A phase begins once the one before has ended: its
    nodes are in use until then. ``enough`` is False if the room asked for cannot be had with all nodes that
    may be powered up. ``kept`` says of nodes that were tried why they are not powered down.
    """

    phases: tuple[Phase, ...]
    state: State
    enough: bool = True
    obstacles: Mapping[int, str] = field(default_factory=dict)

    @property
    def action(self) -> Action:
        """What is done first: all there is to it, unless nodes that are powered up replace others."""
        return self.phases[0].action if self.phases else Action.NOTHING

    @property
    def nodes(self) -> tuple[int, ...]:
        """The rows of the nodes that the action is about, those of the last phase first, as those come first
        that joined last.
        """
        return self._of(self.action)

    @property
    def replaced(self) -> tuple[int, ...]:
        """Likewise of the nodes that are powered down once others have been powered up."""
        return self._of(Action.OFFLINE) if self.action is Action.ONLINE else ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """All moves, in order."""
        return tuple(step for phase in self.phases for step in phase.steps)

    def _of(self, action: Action) -> tuple[int, ...]:
        phases = [phase for phase in reversed(self.phases) if phase.action is action]
        return tuple(node for phase in phases for node in phase.nodes)


class AllowedMoves(Enum):
    """Which instances leave nodes that are powered down: those on storage that all nodes see, also mirrored
    ones, or also plain and file ones, which are stopped while they are copied.
    """

    POOLS = "pools"
    DRBD = "drbd"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Wishes:
    """Nodes (rows) that are powered down before others, those that never are, and how many at most (None:
    any number); and which instances may leave them.
    """

    prefer: frozenset[int] = frozenset()
    never: frozenset[int] = frozenset()
    most: int | None = None
    allowed: AllowedMoves = AllowedMoves.POOLS


ANY = Wishes()
