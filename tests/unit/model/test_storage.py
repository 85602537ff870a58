from ganeti_htools.model.storage import TYPE_NAMES, TYPE_OF, DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate


def test_every_template_has_a_type() -> None:
    """Design "storage types": the mapping from disk templates to storage types."""
    names = {template.value: kind.value for template, kind in TYPE_OF.items()}
    assert names == {
        "diskless": "diskless",
        "file": "file",
        "sharedfile": "sharedfile",
        "plain": "lvm-vg",
        "blockdev": "blockdev",
        "drbd": "lvm-vg",
        "rbd": "rados",
        "ext": "ext",
        "gluster": "gluster",
    }
    assert set(TYPE_OF) == set(DiskTemplate)


def test_types_are_on_one_node_or_seen_by_many_or_neither() -> None:
    assert {kind.value for kind in StorageType if kind.local} == {"lvm-vg", "drbd8", "file"}
    assert {kind.value for kind in StorageType if kind.pool} == {"sharedfile", "gluster", "rados", "ext"}
    assert not any(kind.local and kind.pool for kind in StorageType)


def test_local_templates_are_of_local_types() -> None:
    assert {each for each in DiskTemplate if each.local_storage} <= {
        template for template, kind in TYPE_OF.items() if kind.local
    }


def test_other_names() -> None:
    assert TYPE_NAMES["drbd"] is StorageType.DRBD
    assert TYPE_NAMES["rbd"] is StorageType.RADOS
    assert "lvm-pv" not in TYPE_NAMES


def test_a_unit_in_words() -> None:
    assert str(DesiredUnit(StorageType.FILE, "/srv/files")) == "file//srv/files"
