from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.backends import simu, text
from ganeti_htools.cli.runs.ending import conclude, save_outcome
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.execution.jobs import Job
from ganeti_htools.model.errors import HtoolsError

CLUSTER = simu.parse(["p,2,1,1,1"])
REST = [
    [Job("a", (), ("gnt-instance failover -f a",)), Job("b", (), ("gnt-instance migrate -f b",))],
    [Job("n", (), ("gnt-node power -f off n",))],
]


def outcome(ending: str, reason: str | None = None, going_on: str | None = None) -> dict[str, Any]:
    return {"ending": ending, "reason": reason, "going_on": going_on}


def test_saves_cluster_and_remaining_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = tmp_path / "out"
    save_outcome(CommandLine(save=str(prefix)), CLUSTER, REST)
    assert (tmp_path / "out.executed").read_text() == text.dump(CLUSTER)
    script = (tmp_path / "out.remaining").read_text().splitlines()
    assert [line.strip() for line in script if line.strip().startswith("gnt-")] == [
        command for jobs in REST for job in jobs for command in job.commands
    ]
    assert capsys.readouterr().err.splitlines() == [
        f"The cluster state after execution has been written to file '{prefix}.executed'",
        f"The remaining commands have been written to file '{prefix}.remaining'",
    ]


def test_names_that_begin_with_a_dash_are_refused(tmp_path: Path) -> None:
    odd = [[Job("-x", (), ("gnt-node power -f off -x",), nodes=("-x",))]]
    with pytest.raises(HtoolsError, match="node '-x': begins with a dash"):
        save_outcome(CommandLine(save=str(tmp_path / "out")), None, odd)
    assert [*tmp_path.iterdir()] == []


def test_unreadable_cluster_is_not_saved(tmp_path: Path) -> None:
    save_outcome(CommandLine(save=str(tmp_path / "out")), None, [])
    assert [path.name for path in tmp_path.iterdir()] == ["out.remaining"]


def test_without_the_option_nothing_is_saved(capsys: pytest.CaptureFixture[str]) -> None:
    save_outcome(CommandLine(), CLUSTER, REST)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("ending", ["done", "stopped"])
def test_successful_run_ends_normally(ending: str) -> None:
    conclude(outcome(ending, "as requested"))


def test_interrupted_run_exits_with_status_2() -> None:
    with pytest.raises(SystemExit) as ended:
        conclude(outcome("interrupted"))
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("told", "error"),
    [
        (outcome("failed", "job 1"), "Not all jobs completed successfully: job 1"),
        (outcome("changed", "n is gone"), "The plan does not fit the cluster any more: n is gone"),
        (outcome("lost", "away", "jobs 1"), "away; may go on: jobs 1"),
        (outcome("lost", "away"), "away"),
    ],
)
def test_failed_run_is_an_error(told: dict[str, Any], error: str) -> None:
    with pytest.raises(HtoolsError) as raised:
        conclude(told)
    assert str(raised.value) == error
