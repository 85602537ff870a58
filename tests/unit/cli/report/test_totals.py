"""What a cluster has, uses and has left, by hand."""

from dataclasses import replace

from ganeti_htools.backends import simu
from ganeti_htools.cli.report.totals import total
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


def test_disk_is_that_of_all_storage_units_of_nodes() -> None:
    state = derive(simu.parse(["p,2,8g,64g,4;lvm-vg,ssdvg,1g;file,/srv,16g;rados,fast,1t"]))
    state.columns.lo_dsk[:] = 1024  # of the default one
    found, nodes = total(state), 2
    assert found.t_dsk == found.f_dsk == nodes * (8 + 1 + 16) * 1024
    assert found.a_dsk == found.f_dsk - nodes * 1024
    assert found.most_dsk == 16 * 1024
    assert found.i_dsk == 0
    first, *others = state.cluster.nodes
    units = tuple(unit._replace(free=24) if unit.total == 1024 else unit for unit in first.storage or ())
    after = total(derive(replace(state.cluster, nodes=(replace(first, storage=units), *others))))
    assert (after.i_dsk, after.f_dsk) == (1000, found.f_dsk - 1000)


def test_an_empty_cluster_has_nothing() -> None:
    found = total(derive(cluster({}, [])))
    assert (found.t_mem, found.f_mem, found.most_mem, found.most_dsk, found.score) == (0.0, 0, 0, 0, 0.0)
