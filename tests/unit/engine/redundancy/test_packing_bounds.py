"""Proofs that the demand of a lost node finds room, or that it does not."""

from dataclasses import replace

import numpy as np

from ganeti_htools.engine.redundancy.demand import Amounts, DisplacedDemand
from ganeti_htools.engine.redundancy.packing_bounds import TargetRoom, surely_found, surely_missing
from ganeti_htools.model.columns import Ints

PLENTY = np.full(3, 1_000_000)
NONE = np.zeros(1, np.int64)
FIRST = np.zeros(1, np.int64)


def amounts(*taken: int) -> Amounts:
    """The amounts that instances of one node take."""
    figures = sum(taken), max(taken), min(taken), np.gcd.reduce(taken)
    return Amounts(*(np.array([figure]) for figure in figures))


def displaced(memory: Amounts, disk: Amounts, number: int) -> DisplacedDemand:
    """The demand of one node without shared storage."""
    here = np.ones(1, np.bool_)
    nowhere = np.zeros((0, 1), np.bool_)
    return DisplacedDemand(np.array([number]), memory, (disk,), amounts(1), ~here, here, nowhere)


def found(lost: DisplacedDemand, memory: Ints, disk: Ints = PLENTY, exclusive: bool = False) -> bool:
    free = TargetRoom(memory[np.newaxis], (disk,), np.zeros(len(memory), np.int64))
    reach, alone = np.ones((1, len(memory)), np.bool_), np.full(len(memory), exclusive)
    return bool(surely_found(lost, FIRST, reach, free, alone)[0])


def missing(lost: DisplacedDemand, memory: list[int], *disks: Ints) -> bool:
    return surely_missing(lost, 0, TargetRoom(np.array(memory), disks, np.zeros(len(memory), np.int64)))


def test_as_many_nodes_with_room_for_the_largest_as_instances_are_enough() -> None:
    three = displaced(amounts(100, 100, 100), amounts(0), 3)
    assert found(three, np.array([101, 101, 101]))
    assert found(three, np.array([201, 101, 1]))
    assert not found(three, np.array([200, 101, 100]))


def test_nodes_may_be_full_of_disk_or_spindles_before_they_are_of_memory() -> None:
    three = displaced(amounts(100, 100, 100), amounts(10, 10, 10), 3)
    memory = np.array([1_000, 1_000, 1_000])
    assert found(three, memory)
    assert not found(three, memory, np.array([10, 20, 11]))
    assert not found(three, memory, exclusive=True)


def test_room_is_missing_where_the_largest_fits_nowhere_or_all_together_do_not() -> None:
    three = displaced(amounts(100, 100, 200), amounts(10, 10, 10), 3)
    assert not missing(three, [201, 201], PLENTY[:2])
    assert missing(three, [200, 200, 200], PLENTY)
    assert missing(three, [301, 100], PLENTY[:2])
    assert missing(three, [201, 201], np.array([21, 10]))


def test_room_on_another_unit_counts_by_itself() -> None:
    three = displaced(amounts(1, 1, 1), amounts(0), 3)
    three = replace(three, disk=(amounts(10, 10, 10), amounts(5, 0, 5)))
    assert not missing(three, [100, 100], np.array([21, 11]), np.array([11, 0]))
    assert missing(three, [100, 100], np.array([21, 11]), np.array([10, 5]))


def test_of_a_custom_class_everything_may_be_taken() -> None:
    three, memory = displaced(amounts(100, 100, 100), amounts(0), 3), np.array([1_000, 1_000, 1_000])

    def with_classes(*free: int) -> bool:
        lost = replace(three, classes=(amounts(1, 1, 0),))
        left = (np.array([free]) + 1,)  # one more than there is
        room = TargetRoom(memory[np.newaxis], (PLENTY,), np.zeros(3, np.int64), left)
        return bool(surely_found(lost, FIRST, np.ones((1, 3), np.bool_), room, np.zeros(3, np.bool_))[0])

    assert with_classes(1, 1, 1)
    assert with_classes(2, 2, 0)
    assert not with_classes(1, 0, 0)
    assert not with_classes(0, 0, 0)
