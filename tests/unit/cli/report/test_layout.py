import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools import streams
from ganeti_htools.cli.report import layout

cells = st.text("ab1 ", max_size=5)


@given(
    st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_cells_of_a_column_stand_below_each_other(rows: list[list[str]], numeric: list[bool]) -> None:
    lines = layout.table(rows[0], rows[1:], numeric).split("\n")
    assert lines.pop() == ""
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for line, row in zip(lines, rows, strict=True):
        for cell, width, right in zip(row, widths, numeric, strict=True):
            assert line[0] == " "
            found, line = line[1 : 1 + width], line[1 + width :]
            assert found == (" " * (width - len(cell)) + cell if right else cell + " " * (width - len(cell)))
        assert not line


WIDE = [("a" * 30, "1", "x, y"), ("b", "22", "z")]


def test_table_is_cut_with_mark_on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "width", lambda: 25)
    lines = layout.fitting_table(("Name", "Number", "Text"), WIDE, (False, True, False)).splitlines()
    assert {len(line) for line in lines} == {25}
    assert lines[1] == f" {'a' * 11}…      1 x, y"


def test_table_is_whole_in_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "width", lambda: None)
    header, numeric = ("Name", "Number", "Text"), (False, True, False)
    assert layout.fitting_table(header, WIDE, numeric) == layout.table(header, WIDE, numeric)


NUMBERS = [("node1", "VCPU", *("123456789",) * 4), ("node2", "MEMORY_MB", *("1",) * 4)]


def test_table_of_numbers_is_laid_out_in_parts_on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "width", lambda: 42)
    header, numeric = ("Provider", "Class", "A", "B", "C", "D"), (False, False, *(True,) * 4)
    parts = layout.fitting_table(header, NUMBERS, numeric, labels=2).split("\n\n")
    assert [part.splitlines()[0].split() for part in parts] == [
        ["Provider", "Class", "A", "B"],
        ["Provider", "Class", "C", "D"],
    ]
    assert max(len(line) for part in parts for line in part.splitlines()) <= 42
    assert all("node2" in part and part.count("123456789") == 2 for part in parts)


@given(
    st.lists(st.lists(st.text(min_size=1, max_size=40), min_size=6, max_size=6), min_size=1, max_size=4),
    st.integers(50, 120),
)
def test_table_fits_the_terminal(rows: list[list[str]], screen: int) -> None:
    numeric = (False, False, True, True, False, True)
    cells = [[cell[:9] if right else cell for cell, right in zip(row, numeric, strict=True)] for row in rows]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(streams, "width", lambda: screen)
        text = layout.fitting_table(list("abcdef"), cells, numeric, labels=2)
    assert all(line.isprintable() for line in text.split("\n"))
    if all(cell.isprintable() for row in cells for cell in row):
        assert max(map(len, text.split("\n"))) <= screen


def test_prints_what_others_wrote_without_effects() -> None:
    evil = "web\x1b[31m\nplan forged\x9b2J\u202e"
    shown = "web\\x1b[31m\\nplan forged\\x9b2J\\u202e"
    assert layout.escape_control_characters({evil: [evil, 1, None, {"a": evil}]}) == {
        shown: [shown, 1, None, {"a": shown}]
    }
    assert shown in layout.fitting_table(("Name",), [(evil,)], (False,))
    assert shown in layout.noted_table(("Name", "Words"), [(evil, evil)], (False, False))
    assert "\x1b" not in layout.wrapped(evil)


@pytest.mark.parametrize(("screen", "beside"), [(80, True), (60, False), (None, True)])
def test_words_of_last_column_wrap(monkeypatch: pytest.MonkeyPatch, screen: int | None, beside: bool) -> None:
    monkeypatch.setattr(streams, "width", lambda: screen)
    words = " ".join(f"word{number}" for number in range(20))
    text = layout.noted_table(("Name", "Words"), [("a" * 35, words)], (False, False))
    assert max(map(len, text.splitlines())) <= (screen or 80)
    assert text.split() == ["Name", "Words", "a" * 35, *words.split()]
    assert (text.splitlines()[0].split() == ["Name", "Words"]) == beside


def test_lines_wrap_behind_their_label_on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "width", lambda: None)
    text = "short\n  label   one two three four\n    five six seven eight nine"
    assert layout.wrapped(text) == text
    monkeypatch.setattr(streams, "width", lambda: 20)
    assert layout.wrapped(text).splitlines() == [
        *("short", "  label   one two", "          three four"),
        *("    five six seven", "      eight nine"),
    ]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("1.5", "1.5"),
        ("abc", "abc"),
        ("", ""),
        ("a b", "'a b'"),
        ("-1", "'-1'"),
        ("a,b", "'a,b'"),
        ("a'b", r"'a'\''b'"),
    ],
)
def test_values_are_shell_words(value: str, written: str) -> None:
    assert layout.key_lines("HTS", [("free_mem", value)]) == f"HTS_FREE_MEM={written}\n"
    assert shlex.split(written or "''") == [value]


def test_each_pair_is_a_line() -> None:
    assert layout.key_lines("HCHECK", [("ok", "1"), ("x", "2")]) == "HCHECK_OK=1\nHCHECK_X=2\n"
    assert layout.key_lines("HCHECK", []) == ""
