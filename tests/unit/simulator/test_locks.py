from typing import Any

from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.simulator.jobs import QueuedJob, QueuedOpcode
from ganeti_htools.simulator.locks import locks
from ganeti_htools.simulator.opcodes import check, subjects
from ganeti_htools.simulator.storage_units import object_uuid
from tests.support.worlds import assign, opcode, replace_disks, world

QUESTION = opcode("NODE_QUERY_STORAGE", output_fields=["name"], nodes=["two"])


def job(number: int, state: JobStatus, work: dict[str, Any]) -> QueuedJob:
    return QueuedJob(number, [QueuedOpcode(check(work))], (0, 0), frozenset(), state)


def test_jobs_hold_and_wait_for_locks() -> None:
    jobs = [
        job(1, JobStatus.RUNNING, replace_disks("mirrored", "three")),
        job(2, JobStatus.WAITING, QUESTION),
        job(3, JobStatus.SUCCESS, QUESTION),
    ]
    found = {lock.name: (lock.mode, lock.owners, lock.pending) for lock in locks(world(), jobs)}
    held: tuple[str, list[str], list[Any]] = ("exclusive", ["1"], [])
    assert found == {
        "instance/mirrored": held,
        f"node/{object_uuid('one')}": held,
        f"node/{object_uuid('two')}": ("exclusive", ["1"], [("shared", ["2"])]),
        f"node/{object_uuid('three')}": held,
    }


def test_nodes_are_locked_while_they_change_group() -> None:
    found = locks(world(), [job(1, JobStatus.RUNNING, assign("default", "two"))])
    assert [(lock.name, lock.mode) for lock in found] == [(f"node/{object_uuid('two')}", "exclusive")]


def test_storage_query_blocks_jobs_on_the_instances_of_its_nodes() -> None:
    assert subjects(world(), QUESTION) == {"two", "mirrored"}
