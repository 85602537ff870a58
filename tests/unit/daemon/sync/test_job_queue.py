from ganeti_htools.luxi.queries import MissingReason, QueryRow
from htoolsd.sync.job_queue import (
    JobQueue,
    PendingWork,
    after_poll,
    ended_subjects,
    opcode_filter,
    pending_work,
    status_filter,
)


def test_lists_the_first_unfinished_jobs_in_words() -> None:
    rows = [
        QueryRow({"id": number, "status": "queued", "summary": ["A(b)", "C"]}, {}) for number in range(99)
    ]
    rows[50].values["status"] = "running"  # type: ignore[index]
    queue, _ = after_poll(None, rows)
    assert [job["id"] for job in queue.listed] == [50, *range(19)]
    assert queue.listed[0] == {"id": 50, "status": "running", "summary": "A(b), C"}


def jobs(**states: str) -> list[QueryRow]:
    return [QueryRow({"id": int(name[1:]), "status": state}, {}) for name, state in states.items()]


def test_ended_jobs_name_their_objects() -> None:
    rows = [
        QueryRow({"id": 5, "status": "error", "summary": ["INSTANCE_MIGRATE(web)", "TEST_DELAY"]}, {}),
        QueryRow({"id": 7, "status": "running", "summary": ["INSTANCE_MIGRATE(db)"]}, {}),
        QueryRow({"id": 8}, {"status": MissingReason.NO_DATA, "summary": MissingReason.NO_DATA}),
    ]
    assert ended_subjects(JobQueue(7, frozenset({5, 7})), rows) == {"web"}
    assert ended_subjects(None, rows) == set()


def test_first_poll_asks_for_all_jobs() -> None:
    assert status_filter(None) is None
    queue, ran_empty = after_poll(None, jobs(j3="success", j5="running", j4="error"))
    assert (queue, ran_empty) == (JobQueue(5, frozenset({5})), False)
    assert after_poll(None, []) == (JobQueue(), False)


def test_next_poll_asks_for_unfinished_and_newer_jobs() -> None:
    assert status_filter(JobQueue(7, frozenset({5, 2}))) == [
        "|",
        [">", "id", 7],
        ["=", "id", 2],
        ["=", "id", 5],
    ]


def test_queue_became_empty_when_the_last_job_ended() -> None:
    busy, idle = JobQueue(7, frozenset({5, 7})), JobQueue(7)
    assert after_poll(busy, jobs(j5="success", j7="waiting")) == (JobQueue(7, frozenset({7})), False)
    assert after_poll(busy, jobs(j5="success", j7="canceled")) == (idle, True)
    assert after_poll(busy, jobs(j7="error")) == (idle, True)  # the other is in the archive already
    assert after_poll(busy, jobs(j5="success", j7="error", j8="queued")) == (
        JobQueue(8, frozenset({8})),
        False,
    )
    assert after_poll(busy, [QueryRow({"id": 7}, {"status": MissingReason.NO_DATA})]) == (idle, True)
    assert after_poll(idle, []) == (idle, False)
    assert after_poll(idle, jobs(j8="success")) == (JobQueue(8), True)  # it came and went since the last look


def test_opcodes_are_asked_for_once() -> None:
    create = [{"OP_ID": "OP_INSTANCE_CREATE"}]
    assert opcode_filter(JobQueue(7), None) is None
    assert opcode_filter(JobQueue(7, frozenset({5, 2})), None) == ["|", ["=", "id", 2], ["=", "id", 5]]
    told = [QueryRow({"id": 5, "ops": create}, {}), QueryRow({"id": 2}, {"ops": MissingReason.UNAVAILABLE})]
    first = pending_work(JobQueue(7, frozenset({5, 2})), None, told, 1.0)
    assert first == PendingWork(1.0, {5: create})
    assert opcode_filter(JobQueue(8, frozenset({5, 8})), first) == ["|", ["=", "id", 8]]
    second = pending_work(JobQueue(8, frozenset({5, 8})), first, [QueryRow({"id": 8, "ops": []}, {})], 2.0)
    assert second == PendingWork(2.0, {5: create, 8: []})
    assert opcode_filter(JobQueue(8, frozenset({5})), second) is None
    assert pending_work(JobQueue(8, frozenset({8})), second, [], 3.0) == PendingWork(3.0, {8: []})
