"""Repairs of a cluster's instances: what each needs, whether it may begin, and its opcodes (``harep(1)``)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ganeti_htools.engine.repair.authorisation import Authorisation, authorisation
from ganeti_htools.engine.repair.damage import Damage, RepairScope, damage_of
from ganeti_htools.engine.repair.records import RepairType
from ganeti_htools.engine.repair.states import RepairState, initial_state
from ganeti_htools.luxi import opcodes
from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.cluster import Cluster

_USUAL_IALLOCATOR = "hail"  # where the cluster has no default


@dataclass(frozen=True, slots=True)
class RepairNeed:
    """The need of an instance for repairs; ``damage`` is None if it needs none."""

    name: str
    state: RepairState
    authorisation: Authorisation
    damage: Damage | None


def repair_needs(cluster: Cluster, now: float, scope: RepairScope) -> list[RepairNeed]:
    """Return what each instance needs. Raises HtoolsError for tags in conflict."""
    nodes = {node.name: node for node in cluster.nodes}
    groups = {group.uuid: group for group in cluster.groups}
    return [
        RepairNeed(
            instance.name,
            initial_state(instance.name, instance.tags),
            authorisation((instance.tags, groups[nodes[instance.pnode].group].tags, cluster.tags), now),
            damage_of(instance, nodes, scope),
        )
        for instance in cluster.instances
    ]


def iallocator_of(info: Mapping[str, Any]) -> str:
    """Return the iallocator that chooses new nodes: the cluster's default, from Ganeti's configuration."""
    name = info.get("default_iallocator")
    return name if isinstance(name, str) and name else _USUAL_IALLOCATOR


def job_of(damage: Damage, instance: str, iallocator: str, delay: float) -> list[Opcode]:
    """Return the opcodes of a repair's job, after a delay (seconds) in which its record can be written.

    The job locks the instance, so that its tags cannot be written until the job ends. The iallocator chooses
    new nodes.
    """
    work = [opcodes.delay(delay)] if delay > 0 else []
    chooser = iallocator if damage.elsewhere else None
    match damage.repair:
        case RepairType.FIX_STORAGE:
            return [*work, opcodes.replace_secondary_by(instance, iallocator)]
        case RepairType.MIGRATE:
            return [*work, opcodes.migrate(instance, iallocator=chooser)]
        case RepairType.FAILOVER:
            return [*work, opcodes.failover(instance, iallocator=chooser)]
        case RepairType.REINSTALL:
            return [*work, opcodes.recreate_disks(instance, iallocator), opcodes.reinstall(instance)]
