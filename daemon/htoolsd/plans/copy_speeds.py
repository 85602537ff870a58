"""The speed at which the jobs of plans have copied disks and memory."""

from collections.abc import Iterable
from statistics import median

from ganeti_htools.execution.run import Run
from ganeti_htools.model.cluster import Cluster

_DISKS = ("OP_INSTANCE_REPLACE_DISKS", "OP_INSTANCE_MOVE")  # copy all disks of an instance
_MEMORY = "OP_INSTANCE_MIGRATE"


def copy_speeds(runs: Iterable[Run], cluster: Cluster) -> dict[str, int]:
    """Return the median speed (Mbit/s) by disk template, of the jobs of instances that are in the cluster."""
    rows = {row.name: row for row in cluster.instances}
    found: dict[str, list[float]] = {}
    for task in (task for run in runs for task in run.tasks if task.done and task.seconds):
        row = rows.get(task.job.step.instance) if task.job.step else None
        if row is not None and task.seconds:
            names = [opcode["OP_ID"] for opcode in task.job.opcodes]
            mib = row.dsk * sum(map(names.count, _DISKS)) + row.mem * names.count(_MEMORY)
            if mib:
                found.setdefault(row.template.value, []).append(8 * mib / task.seconds)
    return {template: max(1, round(median(speeds))) for template, speeds in found.items()}
