"""The simulator as a process of its own, and what can happen to it while a plan is carried out."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from ganeti_htools.backends import luxi
from ganeti_htools.execution.events import Away, Event, Submitted, Submitting
from ganeti_htools.execution.execute import execute
from ganeti_htools.execution.review import Review
from ganeti_htools.execution.run import Ending, Run
from ganeti_htools.luxi import client, queries
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.jobs import Patience
from ganeti_htools.model.cluster import Cluster
from tests.support.simulators import PATIENCE, Simulator, simulator
from tests.support.worlds import world
from tests.unit.execution.test_execute import new


async def carry_out(ganeti: Simulator, react: Callable[[Event], None], patience: Patience) -> Run:
    run = new()
    async with LuxiClient(str(ganeti.socket)) as asking:

        async def read() -> Cluster:
            return luxi.parse(await queries.whole_cluster(asking))

        async def tell(event: Event) -> None:
            react(event)

        def check(*_args: object) -> Review:
            return Review()

        with trio.fail_after(PATIENCE):
            await execute(run, asking, read, check, tell, trio.Event(), lambda: 1, patience)
    return run


def once(
    happens: type[Submitting] | type[Submitted], deed: Callable[[], object], then: Callable[[], object]
) -> Callable[[Event], None]:
    """Do something the first time an event happens, and undo it as soon as it shows."""
    done: list[str] = []

    def react(event: Event) -> None:
        if isinstance(event, happens) and not done:
            done.append("deed")
            deed()
        elif isinstance(event, Away) and event.reason is not None and done == ["deed"]:
            done.append("then")
            then()

    return react


@pytest.mark.parametrize("order", ["cut", "drop", "slow"])
async def test_jobs_are_submitted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    """The connection ends in the middle of the answer, or unheard, or there is no answer in time."""
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.01)
    with simulator(tmp_path, world().file_cluster(), "--job-seconds=0.01") as ganeti:
        react = once(
            Submitting,
            lambda: ganeti.tell(order, 1000 if order == "slow" else 1),
            lambda: ganeti.tell("slow", 0),
        )
        run = await carry_out(ganeti, react, Patience(answer=1, away=60, late=0.5))
        assert run.ending is Ending.DONE
        assert [task.number for task in run.tasks] == [1, 2, 3]
        assert [state for _, state in ganeti.tell("jobs")] == ["success"] * 3


async def test_luxid_started_again_between_submission_and_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.01)
    with simulator(tmp_path, world().file_cluster(), "--job-seconds=0.5") as ganeti:
        react = once(Submitted, lambda: ganeti.tell("master", False), lambda: ganeti.tell("master", True))
        run = await carry_out(ganeti, react, Patience(answer=30, away=60, late=0.5))
        assert run.ending is Ending.DONE
        assert {task.status for task in run.tasks} == {JobStatus.SUCCESS}
        assert len(ganeti.tell("jobs")) == 3


async def test_luxid_that_does_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.01)
    with simulator(tmp_path, world().file_cluster(), "--job-seconds=0.5") as ganeti:
        react = once(Submitted, lambda: ganeti.tell("master", False), lambda: None)
        run = await carry_out(ganeti, react, Patience(answer=30, away=0.5, late=0.5))
        assert run.ending is Ending.LOST
        assert [task.number for task in run.current] == [1]
