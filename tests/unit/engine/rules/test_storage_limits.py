"""Limits of disks."""

from ganeti_htools.engine.rules.storage_limits import disk_limits, unit_limits
from ganeti_htools.model.columns import Shape


def test_limits_declared_twice_are_equal() -> None:
    """They are remembered for a few shapes only, and a place may ignore some of them."""
    shape = Shape(("lvm-vg/a", "lvm-vg/b"), (), True)
    anew = [each.__wrapped__(shape) for each in (disk_limits, unit_limits)]
    assert anew == [disk_limits(shape), unit_limits(shape)]
