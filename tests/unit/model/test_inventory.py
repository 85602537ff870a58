"""What may be asked for of an inventory: the examples of the design "Resource Providers - Base Models"."""

import pytest

from ganeti_htools.model.inventory import Inventory


@pytest.mark.parametrize(("amount", "allowed"), [(5, True), (10, True), (20, True), (6, False), (7, False)])
def test_disk_in_steps_of_10_from_5(amount: int, allowed: bool) -> None:
    assert Inventory(5000, min_unit=5, max_unit=1000, step_size=10).allows(amount) is allowed


@pytest.mark.parametrize(("amount", "allowed"), [(0, False), (1, True), (2, True), (3, False), (18, False)])
def test_cpus_in_pairs(amount: int, allowed: bool) -> None:
    assert Inventory(64, min_unit=1, max_unit=16, step_size=2).allows(amount) is allowed


def test_an_overcommitted_host_has_no_more_cpus_for_one_instance() -> None:
    cpus = Inventory(8, max_unit=8, allocation_ratio=16.0)
    assert cpus.capacity == 128
    assert cpus.fits(8, used=120)
    assert not cpus.fits(9, used=0)
    assert not cpus.fits(8, used=121)


def test_what_is_reserved_is_no_capacity() -> None:
    assert Inventory(100, reserved=30, allocation_ratio=1.5).capacity == 105
    assert Inventory(10, reserved=30).capacity == 0


def test_amount_may_be_whole_capacity_without_max_unit() -> None:
    assert Inventory(4).fits(4, used=0)
    assert not Inventory(4).allows(5)
