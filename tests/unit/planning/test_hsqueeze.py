"""What hsqueeze would do: the order of its jobs, and what becomes of it when the cluster changes."""

from dataclasses import replace

import pytest

from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning import hsqueeze
from ganeti_htools.planning.hsqueeze import Options
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.clusters import Shape
from tests.support.rows import with_master


def ignore(_text: str) -> None:
    """Progress that nobody looks at."""


@pytest.fixture(scope="module")
def spacious() -> Cluster:
    made = with_master(4, Shape(nodes=6, instances=12, templates={"ext": 1}, fill=0.05, down=0))
    return replace(made, nodes=tuple(replace(node, powered=True) for node in made.nodes))


def test_nodes_are_emptied_and_tagged_before_they_are_powered_down(spacious: Cluster) -> None:
    proposal = hsqueeze.propose(spacious, Options(), ignore)
    nodes = proposal.found["nodes"]
    assert proposal.purpose == f"condensing by {len(nodes)} nodes"
    jobs = [job for jobs in proposal.jobs for job in jobs]
    moves = [job for job in jobs if job.step is not None]
    assert moves
    assert [job.title for job in jobs if job not in moves] == [
        *(f"drain {node}" for node in nodes),
        *(f"tag {node}" for node in nodes),
        *(f"mark {node} offline" for node in nodes),
        f"power off {', '.join(nodes)}",
        *(f"untag {node}" for node in nodes),
    ]
    assert jobs[len(nodes) : len(nodes) + len(moves)] == moves
    sizes = [len(jobs) for jobs in (proposal.jobs[0], *proposal.jobs[-4:])]
    assert sizes == [len(nodes)] * 3 + [1, len(nodes)]
    assert proposal.jobs[-2][0].commands == (f"gnt-node power -f off {' '.join(nodes)}",)


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


def test_each_group_keeps_its_own_standard_instance_free() -> None:
    """A group whose standard instance is too large for its nodes stays, the other does not."""
    std = DEFAULT_IPOLICY.std
    large = replace(DEFAULT_IPOLICY, std=replace(std, memory_size=9000))
    rows = [instance(f"i{row}", DiskTemplate.EXT, f"n{row % 6}") for row in range(12)]
    made = by_hand.cluster({f"n{row}": 10_000 for row in range(6)}, rows)
    first, *others = made.nodes
    far = [replace(node, group="uuid-2") for node in others[2:]]
    groups = made.groups[0], Group("group2", "uuid-2")
    for policies, freed in (
        ((large, DEFAULT_IPOLICY), {"n3", "n4", "n5"}),
        ((DEFAULT_IPOLICY, large), {"n1", "n2"}),
    ):
        cluster = replace(
            made,
            groups=tuple(replace(group, ipolicy=each) for group, each in zip(groups, policies, strict=True)),
            nodes=(replace(first, master=True), *others[:2], *far),
        )
        found = hsqueeze.propose(cluster, Options(minimal_resources=0.0, target_resources=1.0), ignore).found
        assert found["nodes"]
        assert set(found["nodes"]) <= freed
