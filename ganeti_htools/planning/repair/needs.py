"""Repairs of a cluster's instances: what each needs, whether it may begin, and its opcodes (``harep(1)``)."""

from dataclasses import dataclass
from shlex import quote

from ganeti_htools.engine.repair.authorisation import Authorisation, authorisation
from ganeti_htools.engine.repair.damage import Damage, RepairScope, damage_of
from ganeti_htools.engine.repair.records import RepairType
from ganeti_htools.engine.repair.states import RepairState, initial_state
from ganeti_htools.execution.work import OpcodeAndCommand
from ganeti_htools.luxi import opcodes
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.request import Allocate, Placement, Relocate, Request

_USUAL_IALLOCATOR = "hail"  # where the cluster has no default


@dataclass(frozen=True, slots=True)
class RepairNeed:
    """The need of an instance for repairs; ``damage`` is None if it needs none."""

    row: Instance
    state: RepairState
    authorisation: Authorisation
    damage: Damage | None

    @property
    def name(self) -> str:
        return self.row.name


def repair_needs(cluster: Cluster, now: float, scope: RepairScope) -> list[RepairNeed]:
    """Return what each instance needs. Raises HtoolsError for tags in conflict."""
    nodes = {node.name: node for node in cluster.nodes}
    groups = {group.uuid: group for group in cluster.groups}
    return [
        RepairNeed(
            instance,
            initial_state(instance.name, instance.tags),
            authorisation((instance.tags, groups[nodes[instance.pnode].group].tags, cluster.tags), now),
            damage_of(instance, nodes, scope),
        )
        for instance in cluster.instances
    ]


def request_of(damage: Damage, row: Instance) -> Request | None:
    """Return the iallocator request that Ganeti makes during a repair; None if it makes none."""
    if damage.repair is RepairType.REINSTALL:
        return Allocate(Placement(row, row.template.required_nodes))
    leaving = (
        row.snode if damage.repair is RepairType.FIX_STORAGE else row.pnode if damage.elsewhere else None
    )
    return None if leaving is None else Relocate(row.name, 1, (leaving,))


def work_of(damage: Damage, instance: str, iallocator: str) -> list[OpcodeAndCommand]:
    """Return the opcodes of a repair, each with its command. The iallocator chooses new nodes."""
    chosen_by, name = iallocator or _USUAL_IALLOCATOR, quote(instance)
    chooser, option = (chosen_by, f" -I {quote(chosen_by)}") if damage.elsewhere else (None, "")
    match damage.repair:
        case RepairType.FIX_STORAGE:
            command = f"gnt-instance replace-disks -I {quote(chosen_by)} {name}"
            return [(opcodes.replace_secondary_by(instance, chosen_by), command)]
        case RepairType.MIGRATE:
            command = f"gnt-instance migrate -f --allow-failover{option} {name}"
            return [(opcodes.migrate(instance, iallocator=chooser), command)]
        case RepairType.FAILOVER:
            command = f"gnt-instance failover -f{option} {name}"
            return [(opcodes.failover(instance, iallocator=chooser), command)]
        case RepairType.REINSTALL:
            command = f"gnt-instance recreate-disks -I {quote(chosen_by)} {name}"
            return [
                (opcodes.recreate_disks(instance, chosen_by), command),
                (opcodes.reinstall(instance), f"gnt-instance reinstall -f {name}"),
            ]
