import pytest

from ganeti_htools.model.types import DiskTemplate, Fail, MirrorType, Status

T, M = DiskTemplate, MirrorType


@pytest.mark.parametrize(
    ("template", "mirror", "local", "survives"),
    [
        (T.DISKLESS, M.EXTERNAL, False, True),
        (T.FILE, M.NONE, False, False),
        (T.SHARED_FILE, M.EXTERNAL, False, True),
        (T.PLAIN, M.NONE, True, False),
        (T.BLOCK, M.EXTERNAL, False, False),
        (T.DRBD, M.INTERNAL, True, False),
        (T.RBD, M.EXTERNAL, False, True),
        (T.EXT, M.EXTERNAL, False, True),
        (T.GLUSTER, M.EXTERNAL, False, True),
    ],
)
def test_disk_templates(template: DiskTemplate, mirror: MirrorType, local: bool, survives: bool) -> None:
    assert (template.mirror, template.local_storage, template.survives_node) == (mirror, local, survives)
    assert template.required_nodes == (2 if template is T.DRBD else 1)


def test_states() -> None:
    assert {status for status in Status if status.running} == {Status.RUNNING, Status.ERROR_UP}
    idle = {status for status in Status if not status.uses_memory}
    assert idle == {Status.DOWN, Status.OFFLINE, Status.ERROR_DOWN, Status.USER_DOWN}


def test_reasons_in_the_order_in_which_ganeti_lists_them() -> None:
    assert [fail.value for fail in Fail] == [
        *("FailMem", "FailDisk", "FailCPU", "FailN1", "FailTags", "FailMig", "FailDiskCount"),
        *("FailSpindles", "FailInternal"),
        *("FailResource", "FailRule"),  # ours
    ]
