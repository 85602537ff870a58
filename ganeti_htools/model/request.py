"""What an iallocator may be asked (Ganeti's design "iallocator"). Objects are named, not numbered."""

from dataclasses import dataclass

from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.types import EvacMode


@dataclass(frozen=True, slots=True)
class Placement:
    """A new instance on ``count`` nodes, in the named group if one is named."""

    instance: Instance
    count: int
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Allocate:
    """Place one instance, if ``restrict_to`` is given on those nodes only."""

    placement: Placement
    restrict_to: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class MultiAllocate:
    """Place instances, each with those before it in place."""

    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class AllocateSecondary:
    """Find a secondary for an instance that is to become mirrored."""

    instance: str


@dataclass(frozen=True, slots=True)
class Relocate:
    """Exchange ``count`` nodes of an instance, those it is ``leaving``."""

    instance: str
    count: int
    leaving: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeEvacuate:
    """Move instances within their groups."""

    instances: tuple[str, ...]
    mode: EvacMode


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Move instances to one of the groups (UUIDs), to any other if there are none."""

    instances: tuple[str, ...]
    groups: tuple[str, ...]


Request = Allocate | MultiAllocate | AllocateSecondary | Relocate | NodeEvacuate | ChangeGroup
