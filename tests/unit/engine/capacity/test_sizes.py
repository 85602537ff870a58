"""Sizes are made smaller by what they lack, a unit at a time."""

from dataclasses import replace

from ganeti_htools.engine.capacity.shrinking import SizeRun, by_frequency, worst
from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate, Fail

SIZE = InstanceSize(mem=200, dsk=1000, vcpus=2, spindles=1)


def test_a_size_has_as_many_steps_as_units_beyond_the_last() -> None:
    assert [SIZE.steps(fail) for fail in (Fail.MEM, Fail.DISK, Fail.CPU, Fail.SPINDLES)] == [2, 2, 1, 0]
    assert SIZE.steps(Fail.TAGS) == 0


def test_smaller_by_a_unit_until_one_is_left() -> None:
    assert SIZE.smaller(Fail.MEM) == InstanceSize(136, 1000, 2, 1)
    assert SIZE.smaller(Fail.SPINDLES) is None
    assert SIZE.smaller(Fail.TAGS) is None


def test_the_least_is_where_all_steps_lead() -> None:
    assert SIZE.least() == InstanceSize(72, 488, 1, 1)
    assert SIZE.least(Fail.MEM) == SIZE.less(Fail.MEM, SIZE.steps(Fail.MEM))


def test_a_size_holds_what_is_smaller_in_everything() -> None:
    assert SIZE.holds(SIZE.less(Fail.DISK, 1))
    assert not SIZE.less(Fail.DISK, 1).holds(SIZE)


def test_of_equally_frequent_reasons_the_last_counts() -> None:
    failures = {Fail.MEM: 2, Fail.DISK: 3, Fail.CPU: 3}
    assert by_frequency(failures) == [Fail.CPU, Fail.DISK, Fail.MEM]
    assert worst(failures) is Fail.CPU


def test_a_run_goes_down_by_its_most_frequent_reason() -> None:
    run = SizeRun(SIZE, {Fail.MEM: 1, Fail.DISK: 2}, 3)
    assert [run[at].dsk for at in range(3)] == [1000, 744, 488]


def test_an_instance_of_a_size() -> None:
    instance = InstanceKind(DiskTemplate.PLAIN, 3).instance(SIZE)
    assert (instance.mem, instance.dsk, instance.vcpus, instance.spindle_use) == (200, 1000, 2, 3)
    assert [(disk.size, disk.spindles) for disk in instance.disks] == [(1000, 1)]


def test_an_instance_on_a_unit() -> None:
    unit = DesiredUnit(StorageType.LVM_VG, "ssdvg")
    assert InstanceKind(DiskTemplate.PLAIN, 3, unit).instance(SIZE).disks == (Disk(1000, 1, unit),)


def test_disks_that_are_given_are_the_disks() -> None:
    disks = (Disk(7), Disk(9))
    kind = InstanceKind(DiskTemplate.DRBD, 1, disks=disks)
    instance = kind.instance(SIZE)
    assert (instance.disks, instance.dsk) == (disks, 7 + 128 + 9 + 128)
    assert replace(kind, template=DiskTemplate.PLAIN).instance(SIZE).dsk == 16
