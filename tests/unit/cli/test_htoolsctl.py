"""What htoolsctl asks, and how it ends, with a daemon whose answers are written down."""

import io
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools import streams
from ganeti_htools.cli import htoolsctl
from ganeti_htools.cli.ctl import plans
from ganeti_htools.client import CallRefusedError, Daemon, NoReplyError, PlanChange, Refusal
from tests.support.answering import Answering

ANSWER = '{"success":false,"info":"no place","result":[]}\n'
SUMMARY = {"request": "allocate", "instances": ["new\x1b[31m"], "refusal": "no place"}
RELAY = {"stdout": ANSWER, "stderr": "warn\x1bing\n", "exit_status": 3, "summary": SUMMARY}


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answering]:
    def prepare(*changes: PlanChange, **answers: Any) -> Answering:
        monkeypatch.setattr(Daemon, "follow", lambda _daemon, _plan: iter(changes))
        return Answering(monkeypatch, **answers)

    return prepare


def run(*words: str) -> int:
    return htoolsctl.main(["--socket=/socket", *words])


def plan(state: str) -> Any:
    return {
        "id": "beef",
        "tool": "hbal",
        "state": state,
        "made": 0,
        "by": {"uid": 1, "pid": 2},
        "options": {},
        "groups": ["g"],
        "score": {"before": 2.0, "after": 1.0},
        "error": None,
        "standing": "jobset 1 of 2",
        "execution": {"going_on": None, "not_submitted": []},
    }


def test_json_is_the_answer_as_it_is(
    daemon: Callable[..., Answering], capsys: pytest.CaptureFixture[str]
) -> None:
    daemon(plans=[{"any": "thing"}])
    assert run("plans", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [{"any": "thing"}]


def test_storage_is_shown_as_hinfo_does(
    daemon: Callable[..., Answering], capsys: pytest.CaptureFixture[str]
) -> None:
    room = {"node": "node1", "total": 9, "free": 7}
    unit = {"type": "lvm-vg", "key": "ssdvg", "nodes": [room]}
    asked = daemon(
        storage={"nodes": ["node1", "node2"], "units": [unit], "pools": [], "ages": {"storage": 600.0}}
    ).asked
    assert run("storage") == 0
    assert asked == [("storage", {})]
    assert capsys.readouterr().out.splitlines() == [
        "Storage units (free/total GiB):",
        "   Node  lvm-vg/ssdvg",
        "   node1      0.0/0.0",
        "   node2            -",
        "storage 10 min old",
    ]


@pytest.mark.parametrize(
    ("state", "status"), [("done", 0), ("planned", 0), ("stopped", 0), ("failed", 1), ("interrupted", 2)]
)
def test_the_exit_status_tells_how_a_plan_ended(
    daemon: Callable[..., Answering], capsys: pytest.CaptureFixture[str], state: str, status: int
) -> None:
    running = PlanChange(plan("running"), [("said", "Got job IDs 1")])
    asked = daemon(running, PlanChange(plan(state), [("warned", "Ganeti answers again")])).asked
    assert run("plan", "be") == status
    assert [method for method, _ in asked] == ["status"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Plan beef of hbal")
    assert lines[-3:] == ["Got job IDs 1", "Ganeti answers again", state]


@pytest.mark.parametrize(
    ("words", "wishes"),
    [
        (("be",), {}),
        (("be", "--wait-for-nodes"), {"wait_for_nodes": True}),
        (("be", "--parallel=0"), {"parallel": 0}),
    ],
)
def test_a_plan_is_looked_for_before_it_is_executed(
    daemon: Callable[..., Answering], words: tuple[str, ...], wishes: dict[str, object]
) -> None:
    asked = daemon(PlanChange(plan("done"), [])).asked
    assert run("execute", *words) == 0
    assert asked == [("follow", {"plan": "be"}), ("execute", {"plan": "be", **wishes})]


def test_a_plan_is_cancelled(daemon: Callable[..., Answering], capsys: pytest.CaptureFixture[str]) -> None:
    for left in ([], ["node node1 is drained"]):
        asked = daemon(cancel={**plan("stopping"), "left": left}).asked
        assert run("cancel", "be") == run("cancel", "be", "--now") == 0
        assert [args["now"] for _, args in asked] == [False, True]
    lines = [
        "plan beef stops once its current jobs have ended",
        "plan beef has stopped; its current jobs go on in Ganeti",
    ]
    assert capsys.readouterr().out.splitlines() == [
        *lines,
        *lines,
        "  node node1 is drained",
        "hbal -D -X finishes that: it goes on with these nodes, or uses them again",
    ]


def test_lists_only_plans_that_wait_or_failed(
    daemon: Callable[..., Answering], capsys: pytest.CaptureFixture[str]
) -> None:
    counts = {"jobs": {"succeeded": 0}}
    plans = [plan(state) | counts | {"id": state} for state in ("planned", "failed", "interrupted", "done")]
    daemon(plans=[*plans, plan("planned") | counts | {"id": "proposed", "policy": "squeeze"}])
    for option, expected in (("--waiting", ["proposed"]), ("--failed", ["failed", "interrupted"])):
        assert run("plans", option) == 0
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == expected
    with pytest.raises(SystemExit):
        run("plans", "--waiting", "--failed")


def test_plan_is_forgotten(daemon: Callable[..., Answering], capsys: pytest.CaptureFixture[str]) -> None:
    assert (daemon(forget=plan("failed")).asked, run("forget", "be")) == ([("forget", {"plan": "be"})], 0)
    assert capsys.readouterr().out == "plan beef is removed\n"


def test_forgotten_proposal_does_not_come_again_for_a_while(
    daemon: Callable[..., Answering], capsys: pytest.CaptureFixture[str]
) -> None:
    more = {"policy": "rebalance", "bounds": {"group": "rack1"}, "dismissed_until": 1000.0}
    asked = daemon(forget=plan("planned") | more).asked
    assert run("forget", "--for", "7d", "be") == 0
    assert asked == [("forget", {"plan": "be", "seconds": 7 * 86400.0})]
    told = capsys.readouterr().out
    assert "rebalance does nothing in rack1 until " in told
    assert told.endswith("unless N+1 is lost; htoolsctl run rebalance ends that\n")


def test_shows_the_progress_of_a_plan_on_the_terminal(
    daemon: Callable[..., Answering], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(plans, "progress", lambda _doing: nullcontext(shown.append))
    daemon(PlanChange(plan("running"), []), PlanChange(plan("done") | {"standing": ""}, []))
    assert run("plan", "be") == 0
    assert shown == ["", "jobset 1 of 2", "", ""]


def test_wide_output_is_not_fitted_to_the_terminal(
    daemon: Callable[..., Answering], monkeypatch: pytest.MonkeyPatch
) -> None:
    widened: list[bool] = []
    monkeypatch.setattr(streams, "disable_fitting", lambda: widened.append(True))
    daemon(history=[])
    assert (run("history"), widened) == (0, [])
    assert (run("history", "--wide"), widened) == (0, [True])


def test_names_have_no_effect_on_the_terminal(
    daemon: Callable[..., Answering], capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "web\x1b]0;title\x07\n2026-01-01 00:00:00  plan forged"
    entry = {"time": 0, "kind": "decision", "request": "allocate", "instances": [evil], "places": [[evil]]}
    daemon(history=[entry | {"refusal": evil, "score": None, "test": True}])
    assert run("history") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.isprintable()
    assert "  test of allocate web\\x1b]0;title\\x07\\n2026" in line


def test_a_decision_is_relayed(
    daemon: Callable[..., Answering],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = daemon(decide=RELAY).asked
    (tmp_path / "request").write_text("{}")
    assert run("decide", str(tmp_path / "request"), "--json", "--no-capacity-checks") == 3
    assert capsys.readouterr() == (ANSWER, "warn\\x1bing\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[]")))
    assert run("decide", "--claim", "-") == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["allocate new\\x1b[31m refused: no place", "no place"]
    assert [args for method, args in asked if method == "decide"] == [
        {"arguments": ["--no-capacity-checks"], "claim": False, "file": True},
        {"arguments": [], "claim": True, "request": "[]"},
    ]


def test_groups_that_could_take_an_instance_are_listed(
    daemon: Callable[..., Answering], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    groups = [
        {"group": f"g{number}", "alloc_policy": "preferred", "score": float(number), "nodes": [f"n{number}"]}
        for number in range(3)
    ]
    asked = daemon(decide=RELAY | {"ranking": [{"instance": "new", "groups": groups}]}).asked
    (tmp_path / "request").write_text("{}")
    for number in (0, 1, 5):
        words = str(tmp_path / "request"), f"--alternates={number}", "--no-capacity-checks"
        assert run("decide", *words) == 3
        _, _, header, *rows = capsys.readouterr().out.splitlines()
        assert header.split() == ["Instance", "Group", "Policy", "Score", "Nodes"]
        assert [row.split() for row in rows] == [
            ["new", f"g{which}", "preferred", f"{which}.00000000", f"n{which}"]
            for which in range(min(3, number + 1))
        ]
    assert asked[-1] == (
        "decide",
        {"arguments": ["--no-capacity-checks"], "claim": False, "file": True},
    )
    assert run("decide", str(tmp_path / "request"), "--alternates=1", "--json") == 3
    whole = json.loads(capsys.readouterr().out)
    assert (whole["info"], len(whole["ranking"][0]["groups"])) == ("no place", 3)
    with pytest.raises(SystemExit):
        run("decide", str(tmp_path / "request"), "--alternates=-1")
    assert "--alternates: expected a whole number, got '-1'\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (CallRefusedError(Refusal.BUSY, "too much to do"), "htoolsctl: refused (busy): too much to do\n"),
        (NoReplyError("is htoolsd running?"), "htoolsctl: is htoolsd running?\n"),
    ],
)
def test_an_error_is_a_line(
    daemon: Callable[..., Answering], capsys: pytest.CaptureFixture[str], error: Exception, told: str
) -> None:
    daemon(status=error)
    assert run("status") == 1
    assert capsys.readouterr() == ("", told)


def test_only_decisions_take_further_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("status", "--colour")
    assert ended.value.code == 2
    assert "unrecognized arguments: --colour" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "error", "advice"),
    [
        (
            ["polices"],
            "htoolsctl: error: argument COMMAND: invalid choice: 'polices'",
            "did you mean policies? htoolsctl --help shows what it takes",
        ),
        (
            ["status", "--jsn=x"],
            "htoolsctl status: error: unrecognized arguments: --jsn=x",
            "did you mean --json? htoolsctl status --help shows what it takes",
        ),
        (
            ["plan"],
            "htoolsctl plan: error: the following arguments are required: ID",
            "htoolsctl plan --help shows what it takes",
        ),
    ],
)
def test_error_names_the_nearest_word(
    capsys: pytest.CaptureFixture[str], words: list[str], error: str, advice: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*words)
    assert ended.value.code == 2
    assert capsys.readouterr() == ("", f"{error}\n{advice}\n")


def test_without_command_it_lists_them_by_subject_in_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "width", lambda: 80)
    assert htoolsctl.main([]) == 2
    told = capsys.readouterr().err
    assert "\n\nPlans:\n  plans       List the daemon's plans and their progress.\n" in told
    assert max(map(len, told.splitlines())) <= 80
