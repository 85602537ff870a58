from dataclasses import replace

import pytest

from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.simulator.world import World, initial_world, lose_node, restore_node, with_role
from tests.support.worlds import instance, node, world


def statuses(now: World) -> dict[str, Status]:
    return {row.name: row.status for row in now.cluster.instances}


def test_unused_node_with_figures_is_drained() -> None:
    nodes = (
        node("used"),
        node("drained", offline=True),
        node("off", offline=True, t_mem=0.0, n_mem=0, f_mem=0, t_dsk=0.0, f_dsk=0, t_cpu=0.0),
    )
    rows = Cluster(groups=(Group("default", "uuid"),), nodes=nodes)
    now = initial_world(rows)
    assert (now.master, now.drained, now.offline) == ("used", frozenset({"drained"}), frozenset({"off"}))
    assert now.file_cluster().nodes == (replace(nodes[0], master=True), nodes[1], replace(nodes[2], n_cpu=0))


def test_offline_node_gets_the_figures_of_its_group() -> None:
    off = node("off", offline=True, t_mem=0.0, n_mem=0, f_mem=0, t_dsk=0.0, f_dsk=0, t_cpu=0.0)
    rows = Cluster(
        groups=(Group("default", "uuid"),),
        nodes=(off, node("used", f_mem=3000)),
        instances=(instance("here", DiskTemplate.DRBD, "off", "used"),),
    )
    up = with_role(initial_world(rows), "off", offline=False, drained=False).file_cluster().nodes[0]
    assert up == node("off", f_mem=3000, f_dsk=8500)


def test_group_has_the_pool_that_most_of_its_rbd_disks_name() -> None:
    def rbd(name: str, where: str, key: str | None) -> Instance:
        unit = DesiredUnit(StorageType.RADOS, key) if key else None
        return replace(instance(name, DiskTemplate.RBD, where), disks=(Disk(1, unit=unit),))

    rows = (rbd("a", "one", "fast"), rbd("b", "one", "slow"), rbd("c", "one", "fast"), rbd("d", "two", None))
    groups = (Group("first", "uuid"), Group("other", "uuid-2", rbd_pool="vms"))
    now = initial_world(Cluster(groups, (node("one"), node("two", group="uuid-2")), rows))
    assert [group.rbd_pool for group in now.cluster.groups] == ["fast", "vms"]


def test_refuses_file_without_a_possible_master() -> None:
    with pytest.raises(DataError, match="no node can be the master"):
        initial_world(Cluster())


def test_lost_node_keeps_its_figures() -> None:
    before = world()
    lost = lose_node(before, "one")
    assert set(statuses(lost).values()) == {Status.NODE_DOWN}
    assert lost.file_cluster().nodes[0].f_mem == 0
    assert restore_node(lost, "one") == before


def test_offline_node_keeps_its_figures() -> None:
    before = world()
    off = with_role(before, "one", offline=True, drained=False)
    assert set(statuses(off).values()) == {Status.NODE_OFFLINE}
    assert off.file_cluster().nodes[0].t_mem == 0
    assert with_role(off, "one", offline=False, drained=False) == before


def test_lost_offline_node_needs_both_to_end() -> None:
    both = with_role(lose_node(world(), "one"), "one", offline=True, drained=False)
    assert set(statuses(both).values()) == {Status.NODE_OFFLINE}
    assert not restore_node(both, "one").answers("one")
    online = with_role(both, "one", offline=False, drained=False)
    assert set(statuses(online).values()) == {Status.NODE_DOWN}
    assert restore_node(online, "one") == world()
