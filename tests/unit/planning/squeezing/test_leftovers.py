"""What an interrupted run of hsqueeze has left, and how it is finished."""

from dataclasses import replace

from ganeti_htools.planning.squeezing.leftovers import before_drain, find_leftovers
from ganeti_htools.planning.squeezing.power_jobs import cleanup_jobs
from tests.support.squeezing import world

AUTO, SQUEEZING = "htools:standby:auto", "htools:squeezing"


def test_nodes_of_others_are_left_alone() -> None:
    """Nodes without the tag, and offline ones that have instances again."""
    boss, one, two, three = world().cluster.nodes
    ours = (SQUEEZING, AUTO)
    nodes = (
        boss,
        replace(one, offline=True, drained=True, tags=(AUTO,)),
        replace(two, offline=True, tags=ours, powered=True),
        replace(three, offline=True, tags=(AUTO,), powered=True),
    )
    cluster = replace(world().cluster, nodes=nodes)
    assert str(find_leftovers(cluster)) == ""
    assert before_drain(cluster) is cluster
    rows = tuple(row for row in cluster.instances if row.pnode != "two")
    nodes = (replace(boss, tags=ours), replace(one, offline=True, drained=True, tags=ours), *nodes[2:])
    cluster = replace(cluster, nodes=nodes, instances=rows)
    left = find_leftovers(cluster)
    assert str(left) == "one is drained, two is offline, boss is online and still tagged"
    titles = [[job.title for job in jobs] for jobs in cleanup_jobs(left, set())]
    assert titles == [["undrain one", "untag boss", "power off two"], ["untag two"]]
    assert cleanup_jobs(left, {"one", "two", "boss"}) == [[], []]
    assert str(find_leftovers(before_drain(cluster))) == str(left)
