from typing import Any

import pytest

from ganeti_htools.execution.shape import Shape, fits


def _even(value: object) -> bool:
    return isinstance(value, int) and value % 2 == 0


@pytest.mark.parametrize(
    ("shape", "good", "bad"),
    [
        (int, [0, -7], [True, 1.0, "1", None]),
        (bool, [True], [1]),
        (None, [None], [0, False]),
        ((str, None), ["", None], [0]),
        ([str], [[], ["a"]], [["a", 1], "a", {}, ()]),
        ([[int]], [[[]], [[1], [2, 3]]], [[1]]),
        ({"a": int}, [{"a": 1}, {"a": 1, "b": 2}], [{}, {"b": 1}, {"a": ""}, [], None]),
        (_even, [2], [1, "2"]),
    ],
)
def test_value_fits_shape(shape: Shape, good: list[Any], bad: list[Any]) -> None:
    assert all(fits(value, shape) for value in good)
    assert not any(fits(value, shape) for value in bad)
