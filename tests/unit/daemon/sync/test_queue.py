from ganeti_htools.luxi.queries import Missing, Row
from htoolsd.sync.queue import Queue, Work, asks_for, asks_for_work, seen, work


def jobs(**states: str) -> list[Row]:
    return [Row({"id": int(name[1:]), "status": state}, {}) for name, state in states.items()]


def test_the_first_look_is_at_all_jobs_and_tells_nothing() -> None:
    assert asks_for(None) is None
    queue, ran_empty = seen(None, jobs(j3="success", j5="running", j4="error"))
    assert (queue, ran_empty) == (Queue(5, frozenset({5})), False)
    assert seen(None, []) == (Queue(), False)


def test_the_next_are_at_those_that_may_have_changed() -> None:
    assert asks_for(Queue(7, frozenset({5, 2}))) == ["|", [">", "id", 7], ["=", "id", 2], ["=", "id", 5]]


def test_when_it_has_run_empty() -> None:
    busy, idle = Queue(7, frozenset({5, 7})), Queue(7)
    assert seen(busy, jobs(j5="success", j7="waiting")) == (Queue(7, frozenset({7})), False)
    assert seen(busy, jobs(j5="success", j7="canceled")) == (idle, True)
    assert seen(busy, jobs(j7="error")) == (idle, True)  # the other is in the archive already
    assert seen(busy, jobs(j5="success", j7="error", j8="queued")) == (Queue(8, frozenset({8})), False)
    assert seen(busy, [Row({"id": 7}, {"status": Missing.NO_DATA})]) == (idle, True)
    assert seen(idle, []) == (idle, False)
    assert seen(idle, jobs(j8="success")) == (Queue(8), True)  # it came and went since the last look


def test_what_jobs_are_to_do_is_asked_once() -> None:
    create = [{"OP_ID": "OP_INSTANCE_CREATE"}]
    assert asks_for_work(Queue(7), None) is None
    assert asks_for_work(Queue(7, frozenset({5, 2})), None) == ["|", ["=", "id", 2], ["=", "id", 5]]
    told = [Row({"id": 5, "ops": create}, {}), Row({"id": 2}, {"ops": Missing.UNAVAILABLE})]
    first = work(Queue(7, frozenset({5, 2})), None, told, 1.0)
    assert first == Work(1.0, {5: create})
    assert asks_for_work(Queue(8, frozenset({5, 8})), first) == ["|", ["=", "id", 8]]
    second = work(Queue(8, frozenset({5, 8})), first, [Row({"id": 8, "ops": []}, {})], 2.0)
    assert second == Work(2.0, {5: create, 8: []})
    assert asks_for_work(Queue(8, frozenset({5})), second) is None
    assert work(Queue(8, frozenset({8})), second, [], 3.0) == Work(3.0, {8: []})
