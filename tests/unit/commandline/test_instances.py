"""Which instances hspace is asked to place."""

from dataclasses import replace

import pytest

from ganeti_htools.backends import simu
from ganeti_htools.commandline.instances import requested_instances
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.model.cluster import Cluster, Disk
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.instance_kinds import InstanceSize
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate

PLAIN, DRBD, RBD, FILE = DiskTemplate.PLAIN, DiskTemplate.DRBD, DiskTemplate.RBD, DiskTemplate.FILE
SSD, MIRRORED = DesiredUnit(StorageType.LVM_VG, "ssdvg"), DesiredUnit(StorageType.DRBD, "mirrored")
VMS = DesiredUnit(StorageType.RADOS, "vms")
UNITS = simu.parse(["p,2,1t,64g,4;lvm-vg,ssdvg,1t;drbd8,mirrored,1t;rbd,vms,1t"])
NO_UNITS = simu.parse(["p,2,1t,64g,4"])


def with_templates(*allowed: DiskTemplate, enabled: tuple[DiskTemplate, ...] | None = None) -> Cluster:
    policy = replace(UNITS.ipolicy, disk_templates=allowed)
    return replace(UNITS, ipolicy=policy, enabled_templates=enabled)


def template(cluster: Cluster, unit: DesiredUnit | None = None) -> DiskTemplate:
    tiered, standard = requested_instances(derive(cluster), CommandLine(storage_unit=unit))
    assert tiered.kind.template is standard.kind.template
    return tiered.kind.template


def test_the_template_is_the_first_that_the_policy_enables() -> None:
    assert template(replace(NO_UNITS, ipolicy=with_templates(FILE, PLAIN).ipolicy)) is FILE


def test_the_template_is_one_whose_storage_nodes_have() -> None:
    shared = DiskTemplate.SHARED_FILE
    assert template(with_templates(FILE, shared, DRBD, PLAIN)) is DRBD
    assert template(with_templates(FILE, shared, RBD, PLAIN)) is RBD
    assert template(with_templates(FILE, DiskTemplate.DISKLESS, shared)) is shared
    assert template(with_templates(FILE, RBD, PLAIN, enabled=(FILE, PLAIN))) is PLAIN
    assert template(with_templates(shared, PLAIN, enabled=(shared, PLAIN))) is shared
    empty = simu.parse(["p,2,1t,64g,4;file,/srv,0;lvm-vg,ssdvg,1t"])
    assert template(replace(empty, ipolicy=with_templates(FILE, PLAIN).ipolicy)) is PLAIN


def test_template_has_a_disk_where_units_are_declared() -> None:
    diskless = DiskTemplate.DISKLESS
    allowed = with_templates(diskless, FILE, PLAIN)
    assert template(allowed) is PLAIN
    assert template(replace(NO_UNITS, ipolicy=allowed.ipolicy)) is diskless
    assert template(with_templates(diskless)) is diskless
    assert template(with_templates(diskless, PLAIN, enabled=(diskless, PLAIN))) is diskless


def test_refuses_template_that_is_not_enabled() -> None:
    state = derive(with_templates(PLAIN, DRBD, enabled=(RBD, DRBD)))
    with pytest.raises(
        HtoolsError, match=r"^Disk template plain is not enabled; the cluster enables rbd, drbd$"
    ):
        requested_instances(state, CommandLine(disk_template=PLAIN))
    assert requested_instances(state, CommandLine(disk_template=DRBD))[0].kind.template is DRBD


def test_where_the_cluster_tells_its_order_counts() -> None:
    assert template(with_templates(DRBD, PLAIN, enabled=(RBD, PLAIN, DRBD))) is PLAIN


def test_of_the_enabled_ones_it_is_the_first_for_the_unit() -> None:
    cluster = with_templates(FILE, RBD, PLAIN, DRBD)
    assert [template(cluster, unit) for unit in (SSD, VMS, MIRRORED)] == [PLAIN, RBD, DRBD]


def test_disks_of_the_standard_size() -> None:
    line = CommandLine(
        disk_template=DRBD,
        storage_unit=SSD,
        disk=((5, None), (7, MIRRORED), (8, SSD)),
        standard_alloc=(1, 2, 3, 4),
    )
    tiered, standard = requested_instances(derive(UNITS), line)
    assert (tiered.kind.unit, tiered.kind.disks) == (SSD, ())
    assert standard.kind.disks == (Disk(5, 4, SSD), Disk(7, 0, MIRRORED), Disk(8, 0, SSD))
    assert standard.sizes == [InstanceSize(2, 20, 3, 4)]


@pytest.mark.parametrize(
    ("cluster", "line", "problem"),
    [
        (with_templates(), CommandLine(), "null list of disk templates received from cluster"),
        (with_templates(FILE), CommandLine(storage_unit=SSD), "no enabled disk template is on lvm-vg/ssdvg"),
        (
            with_templates(FILE, PLAIN),
            CommandLine(disk=((1, SSD), (1, VMS))),
            "no enabled disk template is on lvm-vg/ssdvg and rados/vms",
        ),
        (UNITS, CommandLine(disk_template=RBD, storage_unit=SSD), "template rbd cannot be on lvm-vg/ssdvg"),
        (UNITS, CommandLine(disk_template=PLAIN, storage_unit=MIRRORED), "cannot be on drbd8/mirrored"),
        (UNITS, CommandLine(disk_template=FILE), "no node has file, where disks of disk template file are"),
        (UNITS, CommandLine(disk_template=PLAIN, disk=((1, VMS),)), "template plain cannot be on rados/vms"),
        (UNITS, CommandLine(disk_template=PLAIN, disk=((1, SSD._replace(key="x")),)), "no node has lvm-vg/x"),
        (NO_UNITS, CommandLine(disk_template=PLAIN, storage_unit=SSD), "no node tells its storage units"),
        (NO_UNITS, CommandLine(resource=(("CUSTOM_GPU", 1),)), "no node has CUSTOM_GPU"),
    ],
)
def test_what_cannot_be(cluster: Cluster, line: CommandLine, problem: str) -> None:
    with pytest.raises(HtoolsError, match=problem):
        requested_instances(derive(cluster), line)


def test_the_template_is_one_of_which_all_disks_can_be_there() -> None:
    line = CommandLine(disk=((1, SSD), (1, None)))
    assert requested_instances(derive(with_templates(FILE, PLAIN)), line)[1].kind.template is PLAIN


def test_a_pool_need_not_be_told_of() -> None:
    line = CommandLine(disk_template=RBD, storage_unit=VMS)
    assert requested_instances(derive(NO_UNITS), line)[0].kind.unit == VMS
