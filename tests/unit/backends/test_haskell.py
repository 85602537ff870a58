"""The expected spellings are those of Ganeti's tools for the same numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.backends import haskell

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (4.0, "4.0"),
        (0.1, "0.1"),
        (0.01, "1.0e-2"),
        (0.05625, "5.625e-2"),
        (1e-9, "1.0e-9"),
        (9999999.999, "9999999.999"),
        (1e7, "1.0e7"),
        (1099511627776.0, "1.099511627776e12"),
        (123456789012345678.0, "1.2345678901234568e17"),
        (0.30000000000000004, "0.30000000000000004"),
        (-4.0, "-4.0"),
    ],
)
def test_show(number: float, text: str) -> None:
    assert haskell.show(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"),
        (0.1, "0.1"),
        (0.01, "0.01"),
        (1e-9, "0.000000001"),
        (1e7, "10000000.0"),
        (123456789.125, "123456789.125"),
        (1e22, "10000000000000000000000.0"),
    ],
)
def test_positional(number: float, text: str) -> None:
    assert haskell.positional(number) == text


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [
        (1001.5, 0, "1002"),
        (1000.5, 0, "1000"),
        (0.5, 0, "0"),
        (0.12345, 4, "0.1234"),  # more than half a digit in binary
        (0.00015, 4, "0.0002"),
        (0.12365, 4, "0.1236"),
        (5.0, 2, "5.00"),
        (float("nan"), 4, "NaN"),
        (float("inf"), 2, "Infinity"),
        (float("-inf"), 4, "-Infinity"),
    ],
)
def test_fixed(number: float, digits: int, text: str) -> None:
    assert haskell.fixed(number, digits) == text


@given(finite)
def test_nothing_is_lost(number: float) -> None:
    assert float(haskell.show(number)) == number
    assert float(haskell.positional(number)) == number
    assert "e" not in haskell.positional(number)


@given(st.floats(-1e9, 1e9), st.integers(0, 6))
def test_fixed_is_the_nearest_with_so_many_digits(number: float, digits: int) -> None:
    text = haskell.fixed(number, digits)
    assert len(text.partition(".")[2]) == digits
    assert abs(float(text) - number) <= 0.5 * 10**-digits * (1 + 1e-9) + abs(number) * 1e-15
