"""Inventories in tags of nodes and of the cluster."""

from dataclasses import replace
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from ganeti_htools.backends.inventory_tags import (
    inventories_in_tags,
    malformed_inventories,
    pools_in_tags,
    tag_of,
    tags_about,
    with_tagged_inventories,
)
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.inventory import Inventories, Inventory
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.tags import INVENTORY, is_valid
from ganeti_htools.sources.source import Source, read
from tests.support import by_hand

GPU, RBD = "CUSTOM_GPU", DesiredUnit(StorageType.RADOS, "rbd")


def tagged(*tags: str, inventories: Inventories = ()) -> Cluster:
    """A cluster whose first node has these tags."""
    cluster = by_hand.cluster({"node1": 1000, "node2": 1000}, ())
    first = replace(
        cluster.nodes[0],
        tags=tuple(INVENTORY + tag for tag in tags),
        inventories=inventories,
    )
    return replace(cluster, nodes=(first, cluster.nodes[1]))


def first(cluster: Cluster) -> dict[str, Inventory]:
    return dict(with_tagged_inventories(cluster).nodes[0].inventories)


@pytest.mark.parametrize(
    ("name", "inventory", "tag"),
    [
        (GPU, Inventory(4), "CUSTOM_GPU:4"),
        (GPU, Inventory(0), "CUSTOM_GPU:0"),
        (GPU, Inventory(8, 1, 2, 4, 2, 1.5), "CUSTOM_GPU:8:1:2:4:2:1.5"),
        (GPU, Inventory(8, step_size=2), "CUSTOM_GPU:8:0:1:-:2"),
        (GPU, Inventory(8, allocation_ratio=0.05), "CUSTOM_GPU:8:0:1:-:1:5.0e-2"),
        ("MEMORY_MB", Inventory(0, 4096), "MEMORY_MB:-:4096"),
        ("VCPU", Inventory(0, max_unit=2), "VCPU:-:0:1:2"),
    ],
)
def test_tag_has_the_inventory_and_gives_it_back(name: str, inventory: Inventory, tag: str) -> None:
    assert tag_of(name, inventory) == INVENTORY + tag
    assert is_valid(INVENTORY + tag)
    assert inventories_in_tags([INVENTORY + tag, "other"]) == {name: inventory}


def test_total_and_ratio_of_ganetis_classes_are_not_in_tags() -> None:
    assert tag_of("VCPU", Inventory(32, 1, allocation_ratio=4.0, tagged=True)) == f"{INVENTORY}VCPU:-:1"
    assert tag_of("VCPU", Inventory(32, allocation_ratio=4.0)) is None


def test_pool_is_in_a_tag_of_the_cluster() -> None:
    tag = tag_of("rados/rbd", Inventory(1000, 50), pool=True)
    assert tag == f"{INVENTORY}rados/rbd:-:50"
    assert pools_in_tags([tag]) == {RBD: Inventory(0, 50)}
    assert inventories_in_tags([tag]) == {}


@pytest.mark.parametrize(
    ("name", "pool", "told"),
    [
        (f"CUSTOM_{'X' * 200}", False, "too long for a tag of Ganeti; expected at most 107 characters"),
        ("ext/a b", True, "ext/a b: Ganeti allows no such tag; expected letters, digits and "),
        ("ext/a:1", True, "ext/a:1: Ganeti allows no such tag; expected letters, digits and "),
    ],
)
def test_refuses_names_that_no_tag_can_have(name: str, pool: bool, told: str) -> None:
    with pytest.raises(DataError, match=told):
        tag_of(name, Inventory(4, 1), pool)


def test_of_several_tags_of_a_class_the_one_that_leaves_least_counts() -> None:
    tags = [
        f"{INVENTORY}{tag}"
        for tag in ("CUSTOM_GPU:4", "CUSTOM_GPU:3:2", "CUSTOM_GPU:2", "VCPU:-:1", "VCPU:-:2")
    ]
    for order in (tags, tags[::-1]):
        assert inventories_in_tags(order) == {GPU: Inventory(3, 2), "VCPU": Inventory(0, 2)}


def test_finds_the_tags_about_a_class() -> None:
    tags = [f"{INVENTORY}{tag}" for tag in ("CUSTOM_GPU:1", "CUSTOM_GPUS:1", "CUSTOM_GPU:x", "CUSTOM_GPU")]
    assert tags_about(tags, GPU) == [tags[0], *tags[2:]]


def test_names_malformed_tags_and_ignores_them() -> None:
    wrong = ["GPU:4", "CUSTOM_GPU", "CUSTOM_GPU:x", "CUSTOM_GPU:4:0:3:2", "CUSTOM_GPU:1:1:1:1:1:1:1"]
    cluster = replace(
        tagged(*wrong, "CUSTOM_X:1", "VCPU:5"), tags=(f"{INVENTORY}rados:-:1", f"{INVENTORY}rados/rbd:5")
    )
    assert list(first(cluster)) == ["CUSTOM_X"]
    told = list(malformed_inventories(cluster))
    assert len(told) == 2 + len(wrong) + 1
    assert told[0] == f"cluster: tag {INVENTORY}rados:-:1 sets nothing: 'rados': expected a pool as TYPE/KEY"
    expected = "VCPU: total: expected -, because it follows Ganeti"
    assert told[-1] == f"node node1: tag {INVENTORY}VCPU:5 sets nothing: {expected}"


def test_inventory_of_a_node_wins_over_its_tag_of_the_same_class() -> None:
    own = ((GPU, Inventory(1)),)
    found = first(tagged("CUSTOM_GPU:4", "CUSTOM_X:2", inventories=own))
    assert found == {GPU: Inventory(1), "CUSTOM_X": Inventory(2)}
    complete = tagged("CUSTOM_GPU:4", inventories=own)
    assert with_tagged_inventories(complete) is complete


def test_reserved_cpus_and_spindles_count_by_the_policys_ratio() -> None:
    cluster = tagged("VCPU:-:3", "CUSTOM_SPINDLES:-:2", "MEMORY_MB:-:7")
    policy = replace(DEFAULT_IPOLICY, vcpu_ratio=1.5, spindle_ratio=4.0)
    cluster = replace(cluster, groups=(replace(cluster.groups[0], ipolicy=policy),))
    assert {name: each.reserved for name, each in first(cluster).items()} == {
        "CUSTOM_SPINDLES": 8,
        "MEMORY_MB": 7,
        "VCPU": 5,
    }
    exclusive = replace(cluster, nodes=(replace(cluster.nodes[0], excl_stor=True), cluster.nodes[1]))
    assert first(exclusive)["CUSTOM_SPINDLES"].reserved == 2


def test_text_file_has_the_tag_once(tmp_path: Path) -> None:
    path = tmp_path / "cluster"
    cluster = tagged("CUSTOM_GPU:4", "VCPU:-:1")
    path.write_text(text.dump(cluster))
    reading = read(Source(text=str(path)), print)
    assert dict(reading.cluster.nodes[0].inventories)[GPU] == Inventory(4)
    assert text.dump(reading.cluster) == path.read_text()
    more = replace(reading.cluster.nodes[0], inventories=((GPU, Inventory(4, 2)),))
    path.write_text(
        text.dump(replace(by_hand.cluster({"node1": 1000}, ()), tags=(f"{INVENTORY}rados/rbd:-:5",)))
    )
    assert read(Source(text=str(path)), print).cluster.pool_settings == ((RBD, Inventory(0, 5)),)
    claimed = replace(reading.cluster, nodes=(more, *reading.cluster.nodes[1:]))
    assert "|?|CUSTOM_GPU,4,2\n" in text.dump(claimed).replace("|-|", "|?|")


def test_pools_get_the_settings_in_tags_of_the_cluster() -> None:
    unit, other = (DesiredUnit(StorageType.RADOS, key) for key in ("rbd", "fast"))
    tags = (f"{INVENTORY}rados/rbd:-:100:1:500", f"{INVENTORY}rados/fast:-:9")
    known = Cluster(tags=tags, pool_settings=((other, Inventory(0, 8)),))
    found = with_tagged_inventories(known)
    assert dict(found.pool_settings) == {unit: Inventory(0, 100, 1, 500), other: Inventory(0, 8)}
