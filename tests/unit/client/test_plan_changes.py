"""Plans that are followed, with a daemon whose answers are written down."""

from collections.abc import Iterator
from typing import Any

import pytest

from ganeti_htools import client
from ganeti_htools.client import CallRefusedError, NoReplyError, PlanChange, Refusal, plan_changes
from tests.support.answering import Answering

SAID, WARNED = ("said", "one"), ("warned", "two")


def plan(state: str, serial: int, *log: tuple[str, str]) -> Any:
    return {"state": state, "serial": serial, "log": list(log)}


class Daemon(Answering):
    """Gives each answer once."""

    def answer(self, method: str) -> Any:
        assert method == "follow"
        return next(self.answers["each"])


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Any:
    def prepare(*told: Any) -> Daemon:
        monkeypatch.setattr(plan_changes, "_PAUSE", 0.0)
        return Daemon(monkeypatch, each=iter(told))

    return prepare


def follow() -> Iterator[PlanChange]:
    return client.Daemon("/socket").follow("beef")


def test_each_change_comes_with_the_lines_that_are_new(answers: Any) -> None:
    first, same, last = plan("running", 1, SAID), plan("running", 1, SAID), plan("done", 2, SAID, WARNED)
    daemon = answers(first, same, last)
    assert list(follow()) == [PlanChange(first, [SAID]), PlanChange(last, [WARNED])]
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
    assert [change.plan["serial"] for change in follow()] == [1, 5]


def test_gives_up_when_daemon_stays_away(answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_changes, "_AWAY", -1.0)
    answers(NoReplyError("gone"))
    with pytest.raises(NoReplyError):
        list(follow())


@pytest.mark.parametrize(
    "last", [[plan("stopping", 1)], [CallRefusedError(Refusal.STOPPING, "htoolsd is stopping")]]
)
def test_says_that_the_daemon_has_stopped(
    answers: Any, monkeypatch: pytest.MonkeyPatch, last: list[Any]
) -> None:
    """The socket that is gone says nothing to people."""
    answers(plan("running", 0), *last, NoReplyError("socket: No such file or directory"))
    changes = follow()
    next(changes)
    monkeypatch.setattr(plan_changes, "_AWAY", -1.0 if isinstance(last[0], dict) else 0.0)
    with pytest.raises(NoReplyError, match="htoolsd has stopped: it submits no more jobs of the plan"):
        list(changes)


def test_other_refusals_are_raised(answers: Any) -> None:
    answers(CallRefusedError(Refusal.PLAN, "no such plan"))
    with pytest.raises(CallRefusedError):
        list(follow())
