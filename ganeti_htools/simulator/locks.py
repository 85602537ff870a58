"""The locks that jobs hold and wait for, and the columns of queries about them (``Ganeti.Query.Locks``)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.simulator import fields, storage_units
from ganeti_htools.simulator.fields import QueryTable
from ganeti_htools.simulator.jobs import QueuedJob
from ganeti_htools.simulator.world import World

EXCLUSIVE, SHARED = "exclusive", "shared"


@dataclass(slots=True)
class Lock:
    """A lock: its mode, the jobs that hold the lock, and the waiting jobs with their modes (job numbers)."""

    name: str
    mode: str | None = None
    owners: list[str] = field(default_factory=list)
    pending: list[tuple[str, list[str]]] = field(default_factory=list)


LOCKS = QueryTable(
    {
        "name": fields.field("Name", "other", "Lock name", lambda lock: lock.name),
        "mode": fields.field(
            "Mode", "other", "Mode in which the lock is currently acquired", lambda lock: lock.mode
        ),
        "owner": fields.field("Owner", "other", "Current lock owner(s)", lambda lock: lock.owners),
        "pending": fields.field("Pending", "other", "Jobs waiting for the lock", lambda lock: lock.pending),
    }
)


def locks(world: World, jobs: Iterable[QueuedJob]) -> list[Lock]:
    """Return the locks of instances and nodes that unfinished jobs hold or wait for."""
    found: dict[str, Lock] = {}
    for job in jobs:
        if job.state not in (JobStatus.WAITING, JobStatus.RUNNING):
            continue
        needs = {name: mode for op in job.ops for name, mode in _needs(world, op.opcode).items()}
        for name, mode in needs.items():
            lock = found.setdefault(name, Lock(name))
            if job.state is JobStatus.RUNNING:
                lock.mode = mode
                lock.owners.append(str(job.number))
            else:
                lock.pending.append((mode, [str(job.number)]))
    return list(found.values())


def _needs(world: World, opcode: Opcode) -> dict[str, str]:
    """Return the locks of an opcode with their modes. An instance's nodes are locked as well."""
    mode, nodes, needs = EXCLUSIVE, set(opcode.get("node_names") or opcode.get("nodes") or ()), {}
    if opcode["OP_ID"] == "OP_NODE_QUERY_STORAGE":
        mode = SHARED
        nodes = nodes or {node.name for node in world.cluster.nodes}
    nodes |= {opcode[key] for key in ("node_name", "target_node", "remote_node") if opcode.get(key)}
    row = world.instance(opcode.get("instance_name", ""))
    if row is not None:
        needs[f"instance/{row.name}"] = EXCLUSIVE
        nodes |= {name for name in (row.pnode, row.snode) if name}
    return needs | {f"node/{storage_units.object_uuid(name)}": mode for name in nodes}
