"""What stands on disks stays readable."""

import json

import pytest

from ganeti_htools.execution.record import (
    INTERRUPTED,
    VERSION,
    RunRecord,
    record,
    run_from_record,
    upgraded,
    versioned,
)
from ganeti_htools.execution.run import Ending, Run
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.records import JSON
from tests.unit.execution.test_execute import BACK, MIRRORED, SHARED, new


def begun() -> Run:
    """One job has ended, one may have been submitted, one has not been."""
    run = new([[SHARED], [MIRRORED], [BACK]])
    run.next_set()
    run.tasks[0].number, run.tasks[0].status, run.tasks[0].seconds = 1, JobStatus.SUCCESS, 7.5
    run.next_set()
    return run


@pytest.mark.parametrize("ending", [None, *Ending])
def test_run_survives_its_record(ending: Ending | None) -> None:
    run = begun()
    run.ending, run.reason, run.changes = ending, "a reason", ["a change"]
    told = json.loads(json.dumps(record(run)))
    JSON.read(RunRecord, "", told)
    again = run_from_record("test", told)
    assert record(again) == told
    del told["jobs"][0]["seconds"]  # records of earlier versions have none
    assert run_from_record("test", told).tasks[0].seconds is None
    assert (again.ending, again.sets, again.moved) == (ending, 2, 1)
    assert told["ending"] == (INTERRUPTED if ending is None else ending.value)


def test_version_is_on_disk_only() -> None:
    document = {"execution": record(begun())}
    stored = versioned(document)
    assert stored.pop("version") == VERSION
    assert stored == document
    assert upgraded(versioned(document)) == document


def test_version_0_is_upgraded() -> None:
    first = {"execution": {}, "arguments": ["-l3"]}
    assert upgraded(first) == {**first, "options": None}


@pytest.mark.parametrize("version", [-1, True, "1", None, 1.0, [1]])
def test_unknown_version_is_refused(version: object) -> None:
    with pytest.raises(DataError, match=f"version: expected at most {VERSION}"):
        upgraded({"version": version, "execution": {}})


def test_newer_version_is_refused() -> None:
    with pytest.raises(HtoolsError, match="newer htoolsd"):
        upgraded({"version": VERSION + 1, "execution": {}})


@pytest.mark.parametrize("document", [[], None, 7, "text"])
def test_value_that_is_no_object_is_refused(document: object) -> None:
    with pytest.raises(DataError, match="expected an object"):
        upgraded(document)
