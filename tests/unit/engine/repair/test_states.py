import pytest

from ganeti_htools.engine.repair.states import Condition, initial_state
from ganeti_htools.model.errors import HtoolsError

PREFIX = "ganeti:watcher:autorepair:"
PENDING, RESULT = "pending:failover:", "result:failover:"


def state(*tags: str) -> tuple[Condition, str, list[str]]:
    """The condition, the tag that it follows from, and the outdated tags, without their prefix."""
    found = initial_state("web1", [f"{PREFIX}{tag}" for tag in tags])
    tag = "" if found.repair is None else found.repair.tag.removeprefix(PREFIX)
    return found.condition, tag, [each.removeprefix(PREFIX) for each in found.outdated]


@pytest.mark.parametrize(
    ("tag", "condition"),
    [
        (f"{PENDING}a:1:5", Condition.PENDING),
        (f"{RESULT}a:1:success:5", Condition.HEALTHY),
        (f"{RESULT}a:1:enoperm:", Condition.HEALTHY),
        (f"{RESULT}a:1:failure:5", Condition.FAILED),
    ],
)
def test_one_tag(tag: str, condition: Condition) -> None:
    assert state(tag) == (condition, tag, [])


@pytest.mark.parametrize("tags", [(), ("failover",), ("suspend",), (f"{PENDING}a",)])
def test_without_a_record_an_instance_is_healthy(tags: tuple[str, ...]) -> None:
    assert state(*tags) == (Condition.HEALTHY, "", [])


def test_the_newest_success_counts_and_older_ones_are_outdated() -> None:
    old, older = f"{RESULT}b:2:success:2", f"{RESULT}c:1:enoperm:"
    for last in (f"{RESULT}a:3:success:3", f"{PENDING}a:3:3"):
        condition = Condition.PENDING if last.startswith(PENDING) else Condition.HEALTHY
        assert state(last, old, older) == (condition, last, [old, older])


def test_the_first_failure_stays_whatever_follows() -> None:
    first, second = f"{RESULT}b:2:failure:2", f"{RESULT}a:3:failure:3"
    assert state(second, first) == (Condition.FAILED, first, [])
    assert state(f"{PENDING}c:4:4", f"{PENDING}d:5:4", first) == (Condition.FAILED, first, [])
    assert state(first, f"{RESULT}c:1:success:1") == (Condition.FAILED, first, [f"{RESULT}c:1:success:1"])


def test_a_repair_with_several_tags_has_the_highest_outcome_and_then_the_latest() -> None:
    pending, success = f"{PENDING}a:9:5", f"{RESULT}a:2:success:5"
    assert state(pending, success) == (Condition.HEALTHY, success, [])
    assert state(success, f"{RESULT}a:1:failure:5")[0] is Condition.FAILED
    assert state(f"{RESULT}a:3:enoperm:", success)[1] == success
    assert state(f"{PENDING}a:1:5", pending)[1] == pending


@pytest.mark.parametrize("newer", [f"{PENDING}b:2:6", f"{RESULT}b:2:success:6", f"{RESULT}b:2:failure:6"])
def test_anything_newer_than_a_pending_repair_is_a_conflict(newer: str) -> None:
    older = f"{PENDING}a:1:5"
    with pytest.raises(HtoolsError) as error:
        state(newer, older)
    assert str(error.value) == (
        f'An unfinished repair was found in instance web1: found tag "{PREFIX}{newer}", but older pending'
        f' tag "{PREFIX}{older}"exists.'
    )


def test_repairs_of_the_same_time_go_by_their_id() -> None:
    with pytest.raises(HtoolsError, match=r'found tag "[^"]*b:1'):
        state(f"{RESULT}b:1:success:6", f"{PENDING}a:1:5")
    assert state(f"{PENDING}b:1:6", f"{RESULT}a:1:success:5")[0] is Condition.PENDING
