"""What a cluster has, uses and has left, by hand."""

from dataclasses import replace

from ganeti_htools.engine.capacity.totals import total
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance


def test_sums_over_all_nodes() -> None:
    """Node b keeps 2000 MiB free in case a fails, so less of its memory is available than free."""
    instances = [
        instance("one", DiskTemplate.DRBD, "a", "b", mem=2_000),
        instance("two", DiskTemplate.EXT, "b", mem=1_000),
    ]
    made = cluster({"a": 10_000, "b": 6_000}, instances)
    nodes = tuple(replace(row, t_dsk=5_000.0, f_dsk=4_000) for row in made.nodes)
    found = total(derive(replace(made, nodes=nodes)))
    assert (found.t_mem, found.i_mem, found.f_mem) == (16_000.0, 3_000, 13_000)
    assert (found.a_mem, found.most_mem) == (11_000, 8_000)
    assert (found.t_dsk, found.i_dsk, found.f_dsk) == (10_000.0, 2_000, 8_000)
    assert (found.instances, found.i_cpu, found.t_cpu, found.v_cpu) == (
        2,
        4,
        128.0,
        512,
    )  # each node takes one itself
    assert found.n_cpu == 4 / 4
    assert found.score > 0


def test_an_empty_cluster_has_nothing() -> None:
    found = total(derive(cluster({}, [])))
    assert (found.t_mem, found.f_mem, found.most_mem, found.most_dsk, found.score) == (0.0, 0, 0, 0, 0.0)
