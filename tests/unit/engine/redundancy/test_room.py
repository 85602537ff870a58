"""What sums tell of the room for instances that a lost node displaces."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.redundancy.displaced import Amounts, Displaced
from ganeti_htools.engine.redundancy.room import (
    ROUNDING,
    Free,
    lacking,
    largest_sum,
    shares,
    surely_found,
    surely_missing,
    usable,
    wanted,
)
from ganeti_htools.model.columns import Ints

PLENTY = np.full(3, 1_000_000)
NONE = np.zeros(1, np.int64)
FIRST = np.zeros(1, np.int64)


def amounts(*taken: int) -> Amounts:
    """What instances of one node take."""
    figures = sum(taken), max(taken), min(taken), np.gcd.reduce(taken)
    return Amounts(*(np.array([figure]) for figure in figures))


def displaced(memory: Amounts, disk: Amounts, number: int) -> Displaced:
    """What one node displaces, on no shared storage."""
    here = np.ones(1, np.bool_)
    nowhere = np.zeros((0, 1), np.bool_)
    return Displaced(np.array([number]), memory, (disk,), amounts(1), ~here, here, nowhere)


def found(lost: Displaced, memory: Ints, disk: Ints = PLENTY, exclusive: bool = False) -> bool:
    free = Free(memory[np.newaxis], (disk,), np.zeros(len(memory), np.int64))
    reach, alone = np.ones((1, len(memory)), np.bool_), np.full(len(memory), exclusive)
    return bool(surely_found(lost, FIRST, reach, free, alone)[0])


def missing(lost: Displaced, memory: list[int], *disks: Ints) -> bool:
    return surely_missing(lost, 0, Free(np.array(memory), disks, np.zeros(len(memory), np.int64)))


def test_multiples_of_a_unit_leave_something_free() -> None:
    assert [int(usable(free, 64)) for free in (64, 65, 128, 129)] == [0, 64, 64, 128]
    assert int(usable(10, 0)) == 9


def test_what_is_too_small_for_the_largest_takes_no_share() -> None:
    sizes = amounts(200, 100)
    assert shares(np.array([100]), sizes, FIRST).tolist() == [[0.0]]
    assert shares(np.array([401]), sizes, FIRST)[0, 0] == pytest.approx(3.0)


def test_the_largest_sum_counts_parts_of_a_value() -> None:
    values, weights = np.array([[4.0, 3.0, 9.0]]), np.array([[0.5, 1.0, 2.0]])
    assert largest_sum(values, weights)[0] == pytest.approx(4.0 + 1.5, abs=10 * ROUNDING)


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


def test_one_instance_more_is_wanted_as_if_it_had_been_there() -> None:
    assert wanted([]).joined(512) == wanted([512])
    assert wanted([512, 2048]).joined(768) == wanted([512, 768, 2048])


def test_too_little_is_left_for_the_largest_or_for_all() -> None:
    assert not lacking([], wanted([]))
    assert not lacking([1025, 513], wanted([1024, 512]))
    assert lacking([1024, 1024], wanted([1024]))  # something has to stay free
    assert lacking([1600, 1600], wanted([1024, 1024, 1024]))  # two would fit
    assert not lacking([1], wanted([0, 0]))


def test_of_a_custom_class_everything_may_be_taken() -> None:
    three, memory = displaced(amounts(100, 100, 100), amounts(0), 3), np.array([1_000, 1_000, 1_000])

    def with_classes(*free: int) -> bool:
        lost = replace(three, classes=(amounts(1, 1, 0),))
        left = (np.array([free]) + 1,)  # one more than there is
        room = Free(memory[np.newaxis], (PLENTY,), np.zeros(3, np.int64), left)
        return bool(surely_found(lost, FIRST, np.ones((1, 3), np.bool_), room, np.zeros(3, np.bool_))[0])

    assert with_classes(1, 1, 1)
    assert with_classes(2, 2, 0)
    assert not with_classes(1, 0, 0)
    assert not with_classes(0, 0, 0)
