"""Repairs of a cluster's instances: what each needs, whether it may begin, and its opcodes (``harep(1)``)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ganeti_htools.engine.repair.authorisation import Authorisation, authorisation
from ganeti_htools.engine.repair.damage import needed_repair, node_in_maintenance
from ganeti_htools.engine.repair.records import RepairType
from ganeti_htools.engine.repair.states import RepairState, initial_state
from ganeti_htools.luxi import opcodes
from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.cluster import Cluster

_USUAL_IALLOCATOR = "hail"  # where the cluster has no default


@dataclass(frozen=True, slots=True)
class RepairNeed:
    """The need of an instance for repairs.

    ``repair`` is None for an instance without damage. ``maintenance`` is a node in maintenance because of
    which the instance is left alone.
    """

    name: str
    state: RepairState
    authorisation: Authorisation
    repair: RepairType | None
    maintenance: str | None


def repair_needs(cluster: Cluster, now: float) -> list[RepairNeed]:
    """Return what each instance needs. Raises HtoolsError for tags in conflict."""
    nodes = {node.name: node for node in cluster.nodes}
    groups = {group.uuid: group for group in cluster.groups}
    return [
        RepairNeed(
            instance.name,
            initial_state(instance.name, instance.tags),
            authorisation(
                (instance.tags, groups[nodes[instance.pnode].group].tags, cluster.tags),
                now,
            ),
            needed_repair(instance, nodes),
            node_in_maintenance(instance, nodes),
        )
        for instance in cluster.instances
    ]


def iallocator_of(info: Mapping[str, Any]) -> str:
    """Return the iallocator that chooses new nodes: the cluster's default, from Ganeti's configuration."""
    name = info.get("default_iallocator")
    return name if isinstance(name, str) and name else _USUAL_IALLOCATOR


def _opcodes(repair: RepairType, instance: str, iallocator: str) -> Iterator[Opcode]:
    """Yield the opcodes of a repair; the iallocator chooses new nodes."""
    match repair:
        case RepairType.FIX_STORAGE:
            yield opcodes.replace_secondary_by(instance, iallocator)
        case RepairType.MIGRATE:
            yield opcodes.migrate(instance)
        case RepairType.FAILOVER:
            yield opcodes.failover(instance)
        case RepairType.REINSTALL:
            yield opcodes.recreate_disks(instance, iallocator)
            yield opcodes.reinstall(instance)


def job_of(repair: RepairType, instance: str, iallocator: str, delay: float) -> Sequence[Opcode]:
    """Return the opcodes of a repair's job, after a delay (seconds) in which its record can be written.

    The job locks the instance, so that its tags cannot be written until the job ends.
    """
    work = _opcodes(repair, instance, iallocator)
    return [opcodes.delay(delay), *work] if delay > 0 else [*work]
