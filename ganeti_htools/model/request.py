"""Requests to an iallocator (Ganeti's design "iallocator"), with names instead of rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ganeti_htools.model.cluster import Instance, Nic
from ganeti_htools.model.types import EvacMode


@dataclass(frozen=True, slots=True)
class Placement:
    """A new instance on ``count`` nodes, in the named group if one is named."""

    instance: Instance
    count: int
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Allocate:
    """Place one instance; on the nodes in ``restrict_to`` only, if any are given."""

    placement: Placement
    restrict_to: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class MultiAllocate:
    """Place several instances in order, each on the cluster with its predecessors placed."""

    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class AllocateSecondary:
    """Find a secondary for an instance that is to become mirrored."""

    instance: str


@dataclass(frozen=True, slots=True)
class Relocate:
    """Replace the ``count`` nodes that an instance is ``leaving``."""

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
    """Move instances to one of the given groups (UUIDs); to any other group if none are given."""

    instances: tuple[str, ...]
    groups: tuple[str, ...]


Request = Allocate | MultiAllocate | AllocateSecondary | Relocate | NodeEvacuate | ChangeGroup


def instances_of(request: Request) -> tuple[str, ...]:
    match request:
        case Allocate(placement, _):
            return (placement.instance.name,)
        case MultiAllocate(placements):
            return tuple(each.instance.name for each in placements)
        case AllocateSecondary(name) | Relocate(name, _, _):
            return (name,)
        case NodeEvacuate(names, _) | ChangeGroup(names, _):
            return names


def anonymous(request: Request) -> Request:
    """Return a request for new instances without names and addresses. Other requests are unchanged."""

    def nobody(row: Instance) -> Instance:
        return replace(row, name="", nics=tuple(Nic(network=nic.network) for nic in row.nics))

    return with_new_instances(request, nobody)


def with_new_instances(request: Request, change: Callable[[Instance], Instance]) -> Request:
    def changed(placement: Placement) -> Placement:
        return replace(placement, instance=change(placement.instance))

    match request:
        case Allocate(placement, _):
            return replace(request, placement=changed(placement))
        case MultiAllocate(placements):
            return MultiAllocate(tuple(map(changed, placements)))
        case _:
            return request


def new_instances(request: Request) -> tuple[Instance, ...]:
    match request:
        case Allocate(placement, _):
            return (placement.instance,)
        case MultiAllocate(placements):
            return tuple(each.instance for each in placements)
        case _:
            return ()
