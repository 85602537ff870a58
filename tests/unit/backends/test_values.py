from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ganeti_htools.backends import values
from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.types import AllocPolicy

MIB = 2**20
BYTES = {
    **dict.fromkeys(("", "m", "mib", "MIB", "MiB"), MIB),
    **dict.fromkeys(("g", "gib", "GiB"), 2**30),
    **dict.fromkeys(("t", "tib", "TIB"), 2**40),
    **dict.fromkeys(("M", "mb", "MB"), 10**6),
    **dict.fromkeys(("G", "gb", "Gb"), 10**9),
    **dict.fromkeys(("T", "tb", "TB"), 10**12),
}


@given(st.integers(-MAX_MIB, MAX_MIB))
def test_whole_numbers_are_read(number: int) -> None:
    assert values.whole(str(number), low=-MAX_MIB) == number


@pytest.mark.parametrize(("text", "number"), [(" 7", 7), ("007", 7), ("\t0", 0), ("-0", 0)])
def test_other_spellings_of_whole_numbers(text: str, number: int) -> None:
    assert values.whole(text) == number


@pytest.mark.parametrize(
    "text",
    ["", "-", "x", "7 ", "+7", "7.0", "7e1", "1_000", "0b1", "٣", "²", "-1", "1099511627777", "9" * 5000],
)
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(
        DataError, match=r"^cannot parse string '.*', expected a whole number from 0 to 1099511627776$"
    ):
        values.whole(text)


@given(st.floats(0, MAX_MIB))
def test_numbers_are_read(number: float) -> None:
    assert values.number(repr(number)) == number


@pytest.mark.parametrize(("text", "number"), [(" 1.5", 1.5), ("1E3", 1000.0), ("2e-2", 0.02), ("-0.0", 0.0)])
def test_other_spellings_of_numbers(text: str, number: float) -> None:
    assert values.number(text) == number


@pytest.mark.parametrize(
    "text",
    ["", ".5", "5.", "1.0 ", "NaN", "nan", "Infinity", "inf", "1e400", "-0.5", "1e13", "1,5", "9" * 5000],
)
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(
        DataError, match=r"^cannot parse string '.*', expected a number from 0 to 1099511627776$"
    ):
        values.number(text)


@example(MAX_MIB >> 20, "t", "")
@example((MAX_MIB >> 20) + 1, "t", "")
@given(st.integers(0, 2 * 10**6), st.sampled_from(sorted(BYTES)), st.sampled_from(["", " ", "   "]))
def test_sizes_are_whole_mebibytes_rounded_down(number: int, unit: str, gap: str) -> None:
    exact = Fraction(number * BYTES[unit], MIB)
    if exact < MAX_MIB + 1:
        assert values.size(f"{number}{gap}{unit}") == int(exact)
    else:
        with pytest.raises(DataError, match="expected a size"):
            values.size(f"{number}{gap}{unit}")


@pytest.mark.parametrize("text", ["", "g", "-1g", "1.5g", "8 g ", "1e3", "9" * 5000, "1048577t"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="expected a size such as 8g"):
        values.size(text)


def test_an_unknown_unit_is_named() -> None:
    with pytest.raises(DataError, match=r"^unknown unit 'Q' in '8Q', expected m, g, t, M, G or T$"):
        values.size("8Q")


def test_an_unknown_choice_is_told_the_known_ones() -> None:
    assert values.choice("Y", {"Y": True, "N": False})
    with pytest.raises(DataError, match=r"^expected one of Y, N, not 'y'$"):
        values.choice("y", {"Y": True, "N": False})


@pytest.mark.parametrize("policy", AllocPolicy)
def test_members_of_enumerations_are_named_by_their_values(policy: AllocPolicy) -> None:
    assert values.member(policy.value, AllocPolicy) is policy


def test_an_unknown_member_is_told_the_known_ones() -> None:
    with pytest.raises(DataError, match="expected one of preferred, last_resort, unallocable, not 'best'"):
        values.member("best", AllocPolicy)


def test_an_error_is_told_with_its_place() -> None:
    assert values.read(values.whole, "7", "file", "field") == 7
    with pytest.raises(DataError, match=r"^file: field: cannot parse string 'x'"):
        values.read(values.whole, "x", "file", "field")


@given(st.text())
def test_foreign_text_is_quoted_on_one_short_line(text: str) -> None:
    shown = values.quote(text)
    assert shown.isprintable()
    assert shown[0] in "'\""
    if text.isprintable() and len(text) <= 60 and not set(text) & set("'\"\\"):
        assert shown == f"'{text}'"
