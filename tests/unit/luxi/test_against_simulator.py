"""The client and a real socket, with the simulator behind it."""

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from ganeti_htools.backends import luxi, text
from ganeti_htools.luxi import client, job_queries, queries
from ganeti_htools.luxi.client import LuxiClient, NoAnswerError, RefusedError
from ganeti_htools.luxi.job_queries import JobStatus
from tests.support.clusters import Shape, cluster
from tests.support.simulators import PATIENCE, Simulator, simulator
from tests.support.text_format import text as text_of

REASON = [["test", "a test", 1]]


@pytest.fixture
def ganeti(tmp_path: Path) -> Generator[Simulator, None, None]:
    rows = text.parse(
        text_of(cluster(5, Shape(nodes=4, instances=12, offline=1, forthcoming=0.2))), "generated"
    )
    master = next(node.name for node in rows.nodes if not node.offline)
    nodes = tuple(replace(node, master=node.name == master) for node in rows.nodes)
    with simulator(tmp_path, replace(rows, nodes=nodes), "--job-seconds=0.05") as running:
        yield running


async def read(asking: LuxiClient) -> str:
    return text.dump(luxi.parse(await queries.whole_cluster(asking)))


async def test_reads_the_served_cluster(ganeti: Simulator) -> None:
    async with LuxiClient(str(ganeti.socket)) as asking:
        assert await read(asking) == ganeti.file.read_text()


async def until_final(asking: LuxiClient, job: int) -> list[JobStatus]:
    """The states that a job goes through."""
    states: list[JobStatus] = []
    known = None
    with trio.fail_after(PATIENCE):
        while not (states and states[-1].final):
            change = await job_queries.wait_for_change(asking, job, ["status"], known)
            if change is not None:
                known = change.fields
                states.append(JobStatus(known[0]))
    return states


async def test_jobs_are_followed_to_their_end(ganeti: Simulator) -> None:
    ganeti.tell("fail", "TAGS_SET.*", 1)
    good = {"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "reason": REASON}
    bad = {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "name": "", "tags": ["a"], "reason": REASON}
    async with LuxiClient(str(ganeti.socket)) as asking:
        jobs = await job_queries.submit(asking, [[good], [bad]])
        assert jobs == [1, 2]
        assert (await until_final(asking, 1))[-1] is JobStatus.SUCCESS
        assert (await until_final(asking, 2))[-1] is JobStatus.ERROR
        assert await job_queries.job_statuses(asking, [2, 1, 3]) == [JobStatus.ERROR, JobStatus.SUCCESS, None]
        assert (await job_queries.cancel(asking, 1))[0] is False
        with pytest.raises(RefusedError, match="JobLost") as caught:
            await job_queries.wait_for_change(asking, 3, ["status"])
        assert caught.value.kind == "JobLost"


async def outcome(asking: LuxiClient) -> bool | None:
    """Whether Ganeti took a job; None if it may have."""
    opcode = {"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "reason": REASON}
    try:
        await job_queries.submit(asking, [[opcode]])
    except NoAnswerError as error:
        return None if error.sent else False
    return True


async def test_client_reconnects_to_a_restarted_master(
    ganeti: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes a while until the socket is gone, or there again."""
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.01)
    outcomes = []
    with trio.fail_after(PATIENCE):
        async with LuxiClient(str(ganeti.socket)) as asking:
            ganeti.tell("master", False)
            while False not in outcomes:
                outcomes.append(await outcome(asking))
            ganeti.tell("master", True)
            while outcomes[-1] is not True:
                outcomes.append(await outcome(asking))
    taken, perhaps = outcomes.count(True), outcomes.count(None)
    assert taken <= len(ganeti.tell("jobs")) <= taken + perhaps
