"""Names of resource classes."""

from ganeti_htools.model import resource_classes
from ganeti_htools.model.storage import DesiredUnit, StorageType


def test_the_class_of_a_unit_is_its_name_normalised() -> None:
    unit = DesiredUnit(StorageType.LVM_VG, "ssd-vg.1")
    assert resource_classes.class_of_unit(unit) == "CUSTOM_DISK_MIB_LVM_VG_SSD_VG_1"


def test_units_whose_names_collide_have_classes_of_their_own() -> None:
    one, other = DesiredUnit(StorageType.FILE, "/srv/a"), DesiredUnit(StorageType.FILE, "/srv-a")
    first = resource_classes.class_of_unit(one)
    second = resource_classes.class_of_unit(other, frozenset({first}))
    assert first == "CUSTOM_DISK_MIB_FILE__SRV_A"
    assert second != first
    assert second.startswith(f"{first}_")
    assert resource_classes.is_custom(second)


def test_a_name_has_at_most_255_characters() -> None:
    name = resource_classes.class_of_unit(DesiredUnit(StorageType.FILE, "/x" * 200))
    assert len(name) == 255
    assert resource_classes.is_custom(name)


def test_custom_class_names() -> None:
    assert resource_classes.is_custom("CUSTOM_GPU")
    assert not any(map(resource_classes.is_custom, ("VCPU", "CUSTOM_", "CUSTOM_gpu", "GPU", "CUSTOM_A B")))
