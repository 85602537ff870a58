"""What hsqueeze would do: the order of its jobs, and what becomes of it when the cluster changes."""

from dataclasses import replace

import pytest

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning import hsqueeze
from ganeti_htools.planning.hsqueeze import Options
from tests.support.clusters import Shape
from tests.support.rows import with_master


def ignore(_text: str) -> None:
    """Progress that nobody looks at."""


@pytest.fixture(scope="module")
def spacious() -> Cluster:
    return with_master(4, Shape(nodes=6, instances=12, templates={"ext": 1}, fill=0.05, down=0))


def test_nodes_are_emptied_and_tagged_before_they_are_powered_down(spacious: Cluster) -> None:
    proposal = hsqueeze.propose(spacious, Options(), ignore)
    nodes = proposal.found["nodes"]
    assert proposal.purpose == f"condensing by {len(nodes)} nodes"
    jobs = [job for jobs in proposal.jobs for job in jobs]
    moves = [job for job in jobs if job.step is not None]
    assert moves
    assert jobs[: len(moves)] == moves
    assert [job.title for job in jobs[len(moves) :]] == [
        *(f"tag {node}" for node in nodes),
        f"power off {', '.join(nodes)}",
    ]
    assert jobs[-1].commands == tuple(f"gnt-node power -f off {node}" for node in nodes)


def test_nothing_to_do_is_no_job(spacious: Cluster) -> None:
    proposal = hsqueeze.propose(spacious, Options(target_resources=1e6, minimal_resources=0.0), ignore)
    assert (proposal.found["action"], proposal.jobs) == ("nothing", [])


def test_a_node_that_is_gone(spacious: Cluster) -> None:
    proposal = hsqueeze.propose(spacious, Options(), ignore)
    gone = proposal.found["nodes"][0]
    left = replace(
        spacious,
        nodes=tuple(node for node in spacious.nodes if node.name != gone),
        instances=tuple(row for row in spacious.instances if gone not in (row.pnode, row.snode)),
    )
    assert proposal.review("stop", ignore)(spacious, proposal.jobs, 0).obstacle is None
    assert proposal.review("stop", ignore)(left, proposal.jobs, 0).obstacle == f"node {gone} is gone"
    said: list[str] = []
    review = proposal.review("replan", lambda *texts: said.extend(texts))(left, proposal.jobs, 0)
    assert review.obstacle == f"node {gone} is gone"
    assert review.plan is not None
    assert said[1] == "Planning anew..."
    assert said[2] in hsqueeze.TITLES.values()
