"""Plans that are followed, with a daemon whose answers are written down."""

from collections.abc import Iterator
from typing import Any

import pytest

from ganeti_htools.client import plan_changes
from ganeti_htools.client.calls import CallRefusedError, NoReplyError
from ganeti_htools.client.plan_changes import PlanChange, cancel, follow
from ganeti_htools.client.protocol import Refusal

SAID, WARNED = ("said", "one"), ("warned", "two")


def plan(state: str, serial: int, *log: tuple[str, str]) -> dict[str, Any]:
    return {"state": state, "serial": serial, "log": list(log)}


class Daemon:
    """Gives each answer once, and notes what was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers: Iterator[Any] = iter(answers)
        self.asked: list[tuple[str, dict[str, object]]] = []

    def ask(self, path: str, method: str, args: dict[str, object], patience: float = 0.0) -> Any:
        assert path == "socket"
        self.asked.append((method, args))
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Any:
    def prepare(*told: Any) -> Daemon:
        daemon = Daemon(*told)
        monkeypatch.setattr(plan_changes, "ask", daemon.ask)
        monkeypatch.setattr(plan_changes, "_PAUSE", 0.0)
        return daemon

    return prepare


def test_each_change_comes_with_the_lines_that_are_new(answers: Any) -> None:
    first, same, last = plan("running", 1, SAID), plan("running", 1, SAID), plan("done", 2, SAID, WARNED)
    daemon = answers(first, same, last)
    assert list(follow("socket", "beef")) == [PlanChange(first, [SAID]), PlanChange(last, [WARNED])]
    assert [args["serial"] for _, args in daemon.asked] == [None, 1, 1]


@pytest.mark.parametrize(
    ("state", "ended"),
    [("running", False), ("stopping", False), ("planned", True), ("done", True), ("interrupted", True)],
)
def test_plan_has_ended_in_final_states(state: str, ended: bool) -> None:
    assert PlanChange(plan(state, 1), []).ended is ended


@pytest.mark.parametrize("error", [NoReplyError("gone"), CallRefusedError(Refusal.STOPPING, "stopping")])
def test_a_daemon_that_is_started_again_is_waited_for(answers: Any, error: Exception) -> None:
    answers(plan("running", 1, SAID), error, plan("done", 5, SAID))
    assert [change.plan["serial"] for change in follow("socket", "beef")] == [1, 5]


def test_gives_up_when_daemon_stays_away(answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_changes, "_AWAY", -1.0)
    answers(NoReplyError("gone"))
    with pytest.raises(NoReplyError):
        list(follow("socket", "beef"))


@pytest.mark.parametrize(
    "last", [[plan("stopping", 1)], [CallRefusedError(Refusal.STOPPING, "htoolsd is stopping")]]
)
def test_says_that_the_daemon_has_stopped(
    answers: Any, monkeypatch: pytest.MonkeyPatch, last: list[Any]
) -> None:
    """The socket that is gone says nothing to people."""
    answers(plan("running", 0), *last, NoReplyError("socket: No such file or directory"))
    changes = follow("socket", "beef")
    next(changes)
    monkeypatch.setattr(plan_changes, "_AWAY", -1.0 if isinstance(last[0], dict) else 0.0)
    with pytest.raises(NoReplyError, match="htoolsd has stopped: it submits no more jobs of the plan"):
        list(changes)


def test_other_refusals_are_raised(answers: Any) -> None:
    answers(CallRefusedError(Refusal.PLAN, "no such plan"))
    with pytest.raises(CallRefusedError):
        list(follow("socket", "beef"))


def test_a_plan_that_has_ended_need_not_be_stopped(answers: Any) -> None:
    daemon = answers(
        {}, CallRefusedError(Refusal.PLAN, "it is done"), CallRefusedError(Refusal.BUSY, "too much")
    )
    cancel("socket", "beef", now=False)
    cancel("socket", "beef", now=True)
    with pytest.raises(CallRefusedError, match="too much"):
        cancel("socket", "beef", now=True)
    assert [args["now"] for _, args in daemon.asked] == [False, True, True]
