from ganeti_htools.execution.jobs import Job
from ganeti_htools.execution.run import Run, Task
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.opcodes import Signature
from ganeti_htools.model.moves import NamedMove
from ganeti_htools.model.types import DiskTemplate
from htoolsd.plans.copy_speeds import copy_speeds
from tests.support import by_hand

ROWS = [
    by_hand.instance("web", DiskTemplate.DRBD, "n1", "n2", 1000),  # with a disk of 1024 MiB
    by_hand.instance("db", DiskTemplate.EXT, "n1", mem=2000),
]
CLUSTER = by_hand.cluster({"n1": 10_000, "n2": 10_000}, ROWS)


def task(instance: str, seconds: float | None, *opcodes: str, status: JobStatus = JobStatus.SUCCESS) -> Task:
    step = NamedMove(instance, "", (), (), ())
    job = Job(instance, tuple({"OP_ID": f"OP_INSTANCE_{name}"} for name in opcodes), (), step)
    return Task(job, "1/1", 1, status, seconds=seconds)


def test_speed_is_the_median_of_a_template_and_counts_what_was_copied() -> None:
    tasks = [
        task("web", 8.0, "REPLACE_DISKS"),
        task("web", 2024 / 500, "MIGRATE", "REPLACE_DISKS"),
        task("web", 1.0, "REPLACE_DISKS"),
        task("db", 16.0, "MIGRATE"),
        task("db", 0.1, "FAILOVER"),
        task("web", None, "REPLACE_DISKS"),
        task("gone", 1.0, "MIGRATE"),
        task("db", 1.0, "MIGRATE", status=JobStatus.ERROR),
    ]
    run = Run(Signature("test", "", "", "run"), [])
    run.tasks = tasks
    assert copy_speeds([run], CLUSTER) == {"drbd": 4000, "ext": 1000}
    assert copy_speeds([], CLUSTER) == {}
