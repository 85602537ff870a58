"""What the daemon is asked, with one whose answers are written down."""

import pytest

from ganeti_htools.cli.runs import by_daemon
from ganeti_htools.cli.runs.by_daemon import ByDaemon
from ganeti_htools.client import CallRefusedError, NoReplyError, Refusal, on_trio
from ganeti_htools.commandline.programs import HBAL
from ganeti_htools.commandline.reading import parse_or_exit
from ganeti_htools.model.errors import HtoolsError, UsageError
from ganeti_htools.planning.balancing import hbal
from tests.support.answering import Answering


@pytest.mark.parametrize(
    "option",
    [
        "--dynu-file=loads",
        "--dynu-file=",
        "--ialloc-src=request",
        "--mond",
        "--mond-data=file",
        "--simulate=a",
    ],
)
def test_refuses_options_that_describe_the_cluster(option: str) -> None:
    line = parse_or_exit(HBAL, ["-D", option])
    name = option.partition("=")[0]
    with pytest.raises(UsageError, match=f"^{name} cannot be used where htoolsd makes the plan$"):
        ByDaemon(line).plan("hbal", hbal.HbalOptions(), None)


def test_request_has_only_changed_options(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Answering(monkeypatch, plan={"id": "beef"})
    line = parse_or_exit(HBAL, ["-D/socket"])
    assert ByDaemon(line).plan("hbal", hbal.HbalOptions(group="g"), {"nodes": 1}) == {"id": "beef"}
    wishes = {"tool": "hbal", "options": {"group": "g"}, "generations": {"nodes": 1}}
    assert daemon.asked == [("plan", wishes)]


def test_no_wait_returns_once_the_plan_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = {"ending": None, "going_on": "jobs 1"}
    daemon = Answering(monkeypatch, follow={"execution": outcome})
    line = parse_or_exit(HBAL, ["-D/socket", "-X", "--no-wait", "--on-change=stop"])
    said: list[str] = []
    assert ByDaemon(line).carry_out("hbal", None, {"id": "beef"}, said.append) == outcome
    assert said == ["Plan beef has been begun; 'htoolsctl plan beef' follows it"]
    assert daemon.asked == [
        ("execute", {"plan": "beef", "on_change": "stop", "wait_for_nodes": False}),
        ("follow", {"plan": "beef"}),
    ]


def test_lost_answer_points_to_htoolsctl(monkeypatch: pytest.MonkeyPatch) -> None:
    Answering(monkeypatch, execute=NoReplyError("no answer"))
    line = parse_or_exit(HBAL, ["-D/socket", "-X", "--no-wait"])
    with pytest.raises(HtoolsError) as raised:
        ByDaemon(line).carry_out("hbal", None, {"id": "beef"}, print)
    assert str(raised.value) == "no answer; 'htoolsctl plan beef' shows whether it is carried out"


async def test_a_plan_that_has_ended_need_not_be_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind, said in (
        (Refusal.PLAN, ""),
        (Refusal.BUSY, "The plan cannot be stopped: too much\n"),
    ):
        daemon = Answering(monkeypatch, cancel=CallRefusedError(kind, "too much"))
        await by_daemon._cancel(on_trio.TrioDaemon("/socket"), "beef", now=True)
        assert daemon.asked == [("cancel", {"plan": "beef", "now": True})]
        assert capsys.readouterr().err == said
