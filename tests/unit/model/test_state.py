"""Figures worked out by hand."""

from dataclasses import replace

import pytest

from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Load, Node
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.inconsistencies import missing_resources
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Status

GROUP = Group("g", "u", ipolicy=replace(DEFAULT_IPOLICY, vcpu_ratio=8.0, spindle_ratio=16.0))
NODE = Node("a", "u", 4096.0, 512, 2000, 10000.0, 4000, 4.0, 1, 4, 0)
NODES = (NODE, replace(NODE, name="b", f_mem=2900), replace(NODE, name="c", offline=True, excl_stor=True))
DRBD = Instance("1", 1024, 1128, (Disk(1000),), 2, pnode="a", snode="b")
DOWN = replace(DRBD, name="2", mem=512, vcpus=1, status=Status.DOWN)
OFFLINE = replace(
    DRBD, name="3", mem=256, pnode="b", snode=None, template=DiskTemplate.PLAIN, status=Status.OFFLINE
)
MANUAL = replace(DRBD, name="4", mem=768, vcpus=1, pnode="b", snode="a", auto_balance=False, spindle_use=3)
LATER = replace(DRBD, name="5", mem=2048, forthcoming=True)
SHARED = replace(DRBD, name="6", snode=None, template=DiskTemplate.EXT)
CLUSTER = Cluster((GROUP,), NODES, (DRBD, DOWN, OFFLINE, MANUAL))


def column(state: State, name: str) -> list[object]:
    """A figure of all nodes."""
    values: list[object] = getattr(state.columns, name).tolist()
    return values


def with_tags(cluster_tags: tuple[str, ...], *tags: tuple[str, ...]) -> Cluster:
    """The cluster with tags of its own and of its nodes."""
    nodes = tuple(replace(node, tags=own) for node, own in zip(NODES, tags, strict=False))
    return replace(CLUSTER, tags=cluster_tags, nodes=(*nodes, *NODES[len(nodes) :]))


def test_spindles_that_forthcoming_instances_do_not_tell() -> None:
    exclusive = replace(NODE, excl_stor=True, t_spindles=16, f_spindles=9)
    vague, told = LATER, replace(LATER, disks=(Disk(1000, 2),))

    def left(*instances: Instance) -> list[object]:
        rows = tuple(replace(row, name=f"{number}") for number, row in enumerate(instances))
        nodes = (exclusive, replace(exclusive, name="b"), NODES[2])
        return column(derive(Cluster((GROUP,), nodes, rows)), "f_spindles_forth")

    assert left(told, told)[:2] == [5, 5]
    assert left(told, vague)[:2] == [-1, -1]  # whatever was left
    assert left(told, vague, told, replace(told, snode=None, template=DiskTemplate.EXT))[:2] == [-5, -3]
    assert left(replace(vague, forthcoming=False), told)[:2] == [7, 7]


def test_memory() -> None:
    state = derive(CLUSTER)
    assert column(state, "i_mem") == [1024, 768, 0]  # neither those that are down nor those offline
    assert column(state, "x_mem") == [4096 - 512 - 1024 - 2000, 4096 - 512 - 768 - 2900, 1584]
    # What is unaccounted for is not free; that instances use less than they may does not count.
    assert state.columns.unallocated.tolist() == [2000, 2816, 2000]
    assert column(state, "f_mem_forth") == [2000 - 512, 2900 - 256, 2000]


def test_memory_kept_free_for_the_loss_of_another_node() -> None:
    state = derive(CLUSTER)
    # "b" would take over both of "a"; "a" nothing, as the instance is not moved automatically.
    assert state.peers.tolist() == [[0, 1536, 0], [0, 0, 0], [0, 0, 0]]
    assert column(state, "r_mem") == [0, 1536, 0]
    assert column(state, "fail_n1") == [False, False, False]
    full = replace(CLUSTER, nodes=(NODES[0], replace(NODES[1], f_mem=1535), NODES[2]))
    assert column(derive(full), "fail_n1") == [False, True, False]
    # Only the worst single loss counts, not the sum of all.
    other = replace(DRBD, name="7", mem=600, pnode="c")
    assert column(derive(replace(CLUSTER, instances=(*CLUSTER.instances, other))), "r_mem") == [0, 1536, 0]


def test_instances_take_cpus_disk_and_spindles() -> None:
    state = derive(CLUSTER)
    assert column(state, "u_cpu") == [1 + 2 + 1, 1 + 0 + 1, 1]
    assert column(state, "inst_spindles") == [1.0 + 1.0 + 3.0, 1.0 + 1.0 + 1.0 + 3.0, 0.0]
    assert column(state, "hi_spindles") == [64.0, 64.0, 64.0]
    assert column(state, "vcpu_ratio") == [8.0, 8.0, 8.0]
    assert column(state, "primaries") == [2, 2, 0]
    assert column(state, "secondaries") == [1, 2, 0]
    assert column(state, "load_cpu") == [2.0, 2.0, 0.0]
    assert column(state, "load_dsk") == [3.0, 4.0, 0.0]  # DRBD loads the disks of both nodes
    assert [state.pnode.tolist(), state.snode.tolist()] == [[0, 0, 1, 1], [1, 1, NOWHERE, 0]]
    # Until there are forthcoming instances, these figures are the same objects.
    assert state.columns.u_cpu_forth is state.columns.u_cpu
    assert state.columns.f_dsk_forth is state.columns.f_dsk


def test_other_storage_takes_no_disk_and_no_spindles() -> None:
    state = derive(replace(CLUSTER, instances=(SHARED,)))
    assert column(state, "inst_spindles") == [0.0, 0.0, 0.0]
    assert column(state, "i_mem") == [1024, 0, 0]
    later = replace(SHARED, name="7", forthcoming=True)
    assert column(derive(replace(CLUSTER, instances=(later,))), "f_dsk_forth") == [4000, 4000, 4000]


def test_forthcoming_instances_count_apart() -> None:
    state = derive(replace(CLUSTER, instances=(*CLUSTER.instances, LATER)))
    before = derive(CLUSTER)
    for name in ("i_mem", "x_mem", "u_cpu", "r_mem", "inst_spindles", "primaries", "secondaries", "load_cpu"):
        assert column(state, name) == column(before, name)
    assert column(state, "f_mem_forth") == [2000 - 512 - 2048, 2900 - 256, 2000]
    assert column(state, "f_dsk") == [4000, 4000, 4000]
    assert column(state, "f_dsk_forth") == [4000 - 1128, 4000 - 1128, 4000]
    assert column(state, "u_cpu_forth") == [1 + 2 + 1 + 2, 1 + 0 + 1, 1]
    assert column(state, "inst_spindles_forth") == [6.0, 7.0, 0.0]


def test_forthcoming_instances_take_spindles_of_exclusive_storage() -> None:
    node = replace(NODE, excl_stor=True, f_spindles=9)
    later = replace(OFFLINE, name="5", pnode="a", disks=(Disk(500, 2), Disk(500, 3)), forthcoming=True)
    state = derive(Cluster((GROUP,), (node,), (later,)))
    assert column(state, "f_spindles") == [9]
    assert column(state, "f_spindles_forth") == [4]
    assert column(state, "inst_spindles_forth") == [0.0]


def test_measured_load_replaces_the_sum() -> None:
    nodes = (replace(NODES[0], cpu_load=7.5), *NODES[1:])
    busy = replace(DRBD, load=Load(2.0, 3.0, 4.0, 5.0))
    state = derive(replace(CLUSTER, nodes=nodes, instances=(busy, *CLUSTER.instances[1:])))
    assert column(state, "load_cpu") == [7.5, 2.0, 0.0]
    assert column(state, "load_mem") == [4.0, 2.0, 0.0]
    assert column(state, "load_net") == [6.0, 2.0, 0.0]
    assert column(state, "load_dsk") == [6.0, 7.0, 0.0]


@pytest.mark.parametrize(
    ("hypervisor", "static", "own"), [("kvm", 300, 300), ("kvm", 0, 512), ("xen-pvm", 300, 512)]
)
def test_memory_of_the_nodes_own_system(hypervisor: str, static: int, own: int) -> None:
    nodes = tuple(replace(node, hypervisor=hypervisor) for node in NODES)
    state = derive(replace(CLUSTER, nodes=nodes), static_kvm_node_memory=static)
    assert column(state, "n_mem") == [own] * 3
    assert column(state, "x_mem") == [4096 - own - 1024 - 2000, 4096 - own - 768 - 2900, 3584 - own - 1488]
    assert [node.n_mem for node in state.to_cluster().nodes] == [own] * 3


def test_instances_that_exclude_each_other() -> None:
    def tagged(instance: Instance, *tags: str) -> Instance:
        return replace(instance, tags=tags)

    instances = (
        *(tagged(DRBD, "s:x", "s:y", "t:x"), tagged(DOWN, "s:x", "s:y"), tagged(MANUAL, "s:x")),
        tagged(LATER, "s:x"),
    )
    cluster = replace(CLUSTER, instances=instances, tags=("htools:iextags:s:",))
    state = derive(cluster, requested=(tagged(DRBD, "s:new"),))
    assert list(state.tag_rows) == ["s:new", "s:x", "s:y"]
    assert state.tag_counts.tolist() == [[0, 0, 0], [3, 1, 0], [2, 0, 0]]
    assert (state.tag_counts - state.forthcoming_tag_counts).tolist() == [[0, 0, 0], [2, 1, 0], [2, 0, 0]]
    assert column(state, "conflicts") == [2 + 1, 0, 0]
    assert column(derive(replace(cluster, tags=())), "conflicts") == [0, 0, 0]


def test_locations() -> None:
    cluster = with_tags(("htools:nlocation:rack", "htools:nlocation:room"), ("rack:1", "room:1"), ("rack:1",))
    state = derive(cluster)
    assert list(state.location_rows) == ["rack:1", "room:1"]
    assert state.location_tags.tolist() == [[True, True], [True, False], [False, False]]
    assert column(state, "location") == [2, 1, 0]  # three mirrored instances with both nodes in a rack


def test_desired_locations() -> None:
    cluster = with_tags(("htools:nlocation:rack", "htools:desiredlocation:rack"), ("rack:1",), ("rack:2",))
    wishing = (replace(DRBD, tags=("rack:1",)), replace(DOWN, tags=("rack:2", "rack:9")), MANUAL)
    assert column(derive(replace(cluster, instances=wishing)), "location") == [2, 0, 0]


def test_migration() -> None:
    cluster = with_tags(
        ("htools:migration:cpu", "htools:allowmigration:cpu:old::cpu:new"), ("cpu:old",), ("cpu:new",)
    )
    migrates = derive(cluster).allowed_migrations
    assert migrates is not None
    assert migrates.tolist() == [[True, True, False], [False, True, False], [True, True, True]]
    assert derive(CLUSTER).allowed_migrations is None


def test_a_cluster_with_nothing_in_it() -> None:
    state = derive(Cluster())
    assert state.peers.shape == (0, 0)
    assert state.columns.unallocated.tolist() == []


def test_reports_nodes_with_missing_resources() -> None:
    lost = replace(NODE, name="lost", f_mem=NODE.f_mem - 300, f_dsk=0)
    fine = replace(NODE, name="fine", f_mem=2000 + 1584 - 512, f_dsk=10000 - 1024)
    cluster = Cluster((GROUP,), (lost, fine, replace(lost, name="a\nb")), ())
    assert missing_resources(derive(cluster)) == [
        "node a\\nb is missing 1884 MB ram and 9 GB disk",
        "node lost is missing 1884 MB ram and 9 GB disk",
    ]
    assert not missing_resources(derive(Cluster((GROUP,), (replace(lost, updating=True), fine), ())))


def test_a_copy_is_a_state_of_its_own() -> None:
    state = derive(CLUSTER)
    other = state.copy()
    other.columns.u_cpu[0] = 99
    other.pnode[0] = 2
    assert other.columns.u_cpu_forth is other.columns.u_cpu
    assert (state.columns.u_cpu[0], state.pnode[0]) == (4, 0)
    for one in (state, other):
        with pytest.raises(ValueError, match="read-only"):
            one.peers[0, 0] = 2


def test_primaries_of_a_node_latest_first() -> None:
    state = derive(replace(CLUSTER, instances=(*CLUSTER.instances, LATER)))
    assert state.primaries_of(0).tolist() == [1, 0]
    state.stamp[0] = 10
    assert state.primaries_of(0).tolist() == [0, 1]


def test_loads_that_are_equal_by_chance_are_no_aliases() -> None:
    rows = (replace(DRBD, load=Load(cpu=1.0, net=2.0)), replace(DRBD, name="7", load=Load(cpu=2.0, net=1.0)))
    columns = derive(replace(CLUSTER, instances=rows)).columns
    assert columns.load_cpu.tolist() == columns.load_net.tolist()
    assert "load_net" not in columns.aliases
    alike = tuple(replace(row, load=Load(cpu=3.0, net=3.0)) for row in rows)
    assert derive(replace(CLUSTER, instances=alike)).columns.aliases["load_net"] == "load_cpu"
