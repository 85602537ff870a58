"""The expected spellings are those of Ganeti's tools for the same numbers."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.backends import haskell

finite = st.floats(allow_nan=False, allow_infinity=False)
# Where the numbers above and below are not equally far away, or the middle between two numbers is short.
binary = st.builds(math.ldexp, st.integers(1, 2**53), st.integers(-1127, 971))
powers = st.builds(math.ldexp, st.just(1.0), st.integers(-1074, 1023))
decimal = st.builds("{}e{}".format, st.integers(1, 10**17), st.integers(-340, 291)).map(float)
middling = st.builds(
    lambda whole, part: whole + part / 2**16, st.integers(2**36, 2**53), st.integers(0, 2**16)
)


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
        (549755813888.03125, "5.497558138880313e11"),
        (-549755813888.03125, "-5.497558138880313e11"),
        (1e23, "9.999999999999999e22"),
        (2.0**53, "9.007199254740992e15"),
        (5e-324, "5.0e-324"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
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
        (5, 2, "5.00"),
        (float("nan"), 4, "NaN"),
        (float("inf"), 2, "Infinity"),
        (float("-inf"), 4, "-Infinity"),
    ],
)
def test_fixed(number: float, digits: int, text: str) -> None:
    assert haskell.fixed(number, digits) == text


def identified(number: float) -> Decimal:
    """The shortest decimal strictly between the middles to the next floats, the nearest, the larger."""
    exact = Fraction(number)
    low = exact - Fraction(math.ulp(math.nextafter(number, 0))) / 2
    high = exact + Fraction(math.ulp(number)) / 2
    place = 309
    while Fraction(10) ** place > high:
        place -= 1
    while True:
        unit = Fraction(10) ** place
        below = exact // unit
        found = [digits for digits in (below, below + 1) if low < digits * unit < high]
        if found:
            nearest = min(found, key=lambda digits: (abs(digits * unit - exact), -digits))
            return Decimal(f"{nearest}e{place}")
        place -= 1


@given(st.one_of(finite.filter(bool).map(abs), binary, powers, decimal.filter(bool), middling))
def test_the_shortest_digits(number: float) -> None:
    expected = identified(number)
    assert Decimal(haskell.show(number)) == expected
    assert Decimal(haskell.positional(-number)) == -expected


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
