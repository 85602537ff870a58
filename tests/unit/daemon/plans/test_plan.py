"""A plan is what it was after it has been written and read again."""

import copy
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from ganeti_htools.cli.ctl import plans as reports
from ganeti_htools.execution.record import VERSION
from ganeti_htools.execution.run import Ending, Run
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.model.errors import DataError, HtoolsError
from htoolsd.history.entries import document_from_bytes
from htoolsd.plans.plan import Plan, PlanChanged, PlanState, plan_from_json, read_plans
from tests.unit.execution.test_execute import BACK, MIRRORED, SHARED, new


def some_plan(run: Run) -> Plan:
    facts = {
        "id": run.signature.run,
        "tool": "hbal",
        "options": {"max_length": 3},
        "groups": ["default"],
        "made": 1.0,
        "by": {"uid": 0, "pid": 1},
        "score": {"before": 2.0, "after": 1.0},
        "cost": None,
    }
    return Plan(facts, run)


def begun() -> Plan:
    """A plan of which one job has ended, one may have been submitted, one has not."""
    plan = some_plan(new([[SHARED], [MIRRORED, BACK]]))
    plan.begin(2.0)
    plan.run.next_set()
    task = plan.run.tasks[0]
    task.number, task.status = 1, JobStatus.SUCCESS
    plan.run.next_set()
    plan.run.tasks[2].error = "not accepted"
    plan.say("one", "two")
    plan.warn("three")
    return plan


def test_reads_an_ended_plan() -> None:
    plan = begun()
    plan.run.tasks[1].number, plan.run.tasks[1].status = 2, JobStatus.CANCELED
    plan.run.tasks[1].error = "canceled"
    plan.run.ending, plan.run.reason = Ending.FAILED, "it failed"
    plan.end(3.0)
    assert plan.state is PlanState.FAILED
    assert plan.error == "Not all jobs completed successfully: it failed"
    again = plan_from_json(plan.text().encode())
    assert again.text() == plan.text()
    assert [task.place for task in again.run.tasks] == ["1/1", "2/1", "2/2"]
    assert not again.run.current


def test_reads_who_executed_and_cancelled_a_plan() -> None:
    plan = begun()
    plan.executed_by = {"uid": 7, "pid": 8}
    plan.cancel({"uid": 9, "pid": 10})
    plan.cancel({"uid": 11, "pid": 12})
    again = plan_from_json(plan.text().encode())
    assert (again.executed_by, again.cancelled_by) == ({"uid": 7, "pid": 8}, {"uid": 9, "pid": 10})


def test_reads_a_record_without_them() -> None:
    document = orjson.loads(begun().text())
    del document["executed_by"], document["cancelled_by"]
    plan = plan_from_json(orjson.dumps(document))
    assert (plan.executed_by, plan.cancelled_by) == (None, None)


@pytest.mark.parametrize("score", [math.inf, -math.inf, math.nan, 0, 1e300])
def test_reads_records_with_any_score(score: float) -> None:
    plan = begun()
    plan.facts["score"] = {"before": score, "after": score}
    assert plan_from_json(plan.text().encode()).text() == plan.text()


def test_running_plan_is_read_as_interrupted() -> None:
    plan = begun()
    again = plan_from_json(plan.text().encode())
    assert again.state is PlanState.RUNNING
    again.end(4.0)
    assert (again.state, again.error) == (PlanState.INTERRUPTED, None)
    (task,) = again.run.current
    assert again.run.signature.comment(task.place) == plan.run.signature.comment("2/1")
    assert again.to_json()["execution"]["going_on"] == "perhaps 1 jobs with 'run beef' in their comments"
    assert again.summary()["jobs"] == {"succeeded": 1, "failed": 1, "going": 1, "left": 0}


def test_reads_a_record_without_version() -> None:
    document = orjson.loads(begun().text())
    del document["version"], document["options"]
    plan = plan_from_json(orjson.dumps({**document, "arguments": ["-l3"]}))
    assert (plan.facts["options"], plan.facts["arguments"]) == (None, ["-l3"])
    assert plan_from_json(plan.text().encode()).text() == plan.text()


def test_refuses_a_record_of_a_later_version() -> None:
    with pytest.raises(HtoolsError, match="newer htoolsd"):
        plan_from_json(orjson.dumps({**orjson.loads(begun().text()), "version": VERSION + 1}))


def test_version_of_the_record_is_not_in_the_answer() -> None:
    assert "version" not in plan_from_json(begun().text().encode()).to_json()


def test_news() -> None:
    plan = some_plan(new())
    before, news = plan.serial, plan.news
    plan.changed()
    assert plan.serial > before
    assert news.is_set()
    assert not plan.news.is_set()


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"tool": "hbal", "execution": []}'])
def test_refuses_documents_that_are_not_plans(text: bytes) -> None:
    with pytest.raises(DataError, match="not the record of a plan"):
        plan_from_json(text)


@pytest.mark.parametrize("key", ["state", "log", "execution", "tool", "executed_by"])
def test_refuses_damaged_records(key: str) -> None:
    document = orjson.loads(begun().text())
    document[key] = 7
    if key == "tool":
        del document[key]
    with pytest.raises(DataError, match="not the record of a plan"):
        plan_from_json(orjson.dumps(document))


def parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every object and list in a document, with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from parts(item)


DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]
STRANGE = [
    None,
    True,
    7,
    -1,
    2**63,
    1e308,
    "",
    "x",
    "../../x",
    "\x1b[2J",
    [],
    [7],
    [None],
    {},
    {"x": 1},
    DEEP,
]


def use(plan: Plan) -> None:
    """Do what the daemon and htoolsctl do with a plan that was read."""
    told = json.loads(orjson.dumps(plan.to_json()))
    assert "".join(reports.description(told)) + reports.ending(told)
    assert reports.table([json.loads(orjson.dumps(plan.summary()))])
    assert document_from_bytes(orjson.dumps(PlanChanged(1.0, plan.to_json(), plan).to_json()))
    plan.obstacle_to_resuming()
    plan.has_expired(1e9)


def test_any_accepted_record_can_be_used() -> None:
    document = orjson.loads(begun().text())
    document |= {"cost": {"moves": 1, "mib": 2}, "policy": "rebalance", "continues": "beef"}
    document |= {"generations": {"nodes": 1}, "on_change": "replan", "wait_for_nodes": False}
    read = 0
    for number, _ in enumerate(parts(document)):
        for strange in STRANGE:
            damaged = copy.deepcopy(document)
            owner, key = list(parts(damaged))[number]
            owner[key] = strange
            try:
                plan = plan_from_json(json.dumps(damaged).encode())
            except HtoolsError:
                continue
            read += 1
            assert plan.id.isalnum()
            use(plan)
            plan.end(5.0)
            use(plan)
            assert plan_from_json(plan.text().encode()).text() == plan.text()
    assert read


def test_reads_good_files_beside_bad_ones(tmp_path: Path) -> None:
    text = begun().text()
    for name in ("beef.json", "dead.json", "note.txt"):
        (tmp_path / name).write_text(text)
    (tmp_path / "a.json").mkdir()
    (tmp_path / "\udcff.json").write_bytes(b"\xff")
    newer = orjson.dumps({**orjson.loads(text), "version": VERSION + 1})
    (tmp_path / "newer.json").write_bytes(newer)
    (tmp_path / "beef.json.0123.tmp").write_text("")
    found = {Path(path).name: plan for path, plan in read_plans(str(tmp_path))}
    assert found.keys() == {"beef.json", "dead.json", "a.json", "\udcff.json", "newer.json"}
    assert isinstance(found["beef.json"], Plan)
    assert str(found["dead.json"]) == "not the record of a plan: id: beef does not match the file's name"
    assert not (tmp_path / "beef.json.0123.tmp").exists()
    assert (tmp_path / "newer.json").read_bytes() == newer
    names = {path.name.partition(".damaged-")[0] for path in tmp_path.glob("*.damaged-*")}
    assert names == {"dead.json", "\udcff.json"}
