"""Values of documents, by the hints that declare them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import pytest

from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.records import JSON, RecordError, Valid, from_bytes, refuse_newer, to_text


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Expense(NamedTuple):
    moves: int
    run: str = ""


class Note(TypedDict):
    text: str
    by: str | None
    more: NotRequired[int]


@dataclass
class Box:
    size: int
    notes: list[Note]

    def __post_init__(self) -> None:
        if self.size > 9:
            raise DataError("size: expected at most 9")


EVEN = Annotated[int, Valid("an even number", lambda value: value % 2 == 0)]


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (int, {"0": 0, "-7": -7}, ["true", "1.0", '"1"', "null"]),
        (bool, {"true": True}, ["1"]),
        (float, {"1": 1.0, "0.5": 0.5}, ["false", '"1"']),
        (Any, {"null": None, "[1]": [1]}, []),
        (str | None, {"null": None, '""': ""}, ["0"]),
        (list[str], {"[]": [], '["a"]': ["a"]}, ['["a", 1]', '"a"', "{}"]),
        (tuple[str, ...], {'["a"]': ("a",)}, ["[null]"]),
        (Sequence[int], {"[1]": (1,)}, ["[[1]]"]),
        (list[list[int]], {"[[], [2, 3]]": [[], [2, 3]]}, ["[1]"]),
        (Mapping[str, EVEN], {'{"a": 2}': {"a": 2}}, ['{"a": 3}', "[]"]),
        (bool | str, {"true": True, '"a"': "a"}, ["1", "null"]),
        (
            tuple[str, Expense],
            {'["a", [1]]': ("a", Expense(1))},
            ['["a"]', '["a", 1]', '["a", [1], 2]', "{}"],
        ),
        (Literal["a", "b"], {'"a"': "a"}, ['"c"', "1"]),
        (Colour, {'"red"': Colour.RED}, ['"green"', "1"]),
        (Expense, {'{"moves": 1, "x": 2}': Expense(1), "[1]": Expense(1)}, ['[1, "a", 2]', "[]", "{}", "3"]),
        (Box, {'{"size": 1, "notes": []}': Box(1, [])}, ['{"notes": []}', "[1, []]"]),
        (EVEN | None, {"2": 2, "null": None}, ["1", '"2"']),
    ],
)
def test_value_is_read_as_its_hint_declares(hint: Any, good: dict[str, Any], bad: list[str]) -> None:
    for text, value in good.items():
        found = from_bytes(hint, text)
        assert (found, type(found)) == (value, type(value))
    for text in bad:
        with pytest.raises(DataError):
            from_bytes(hint, text)


def test_all_errors_of_a_record_are_named() -> None:
    with pytest.raises(RecordError) as caught:
        JSON.read(Box, "box", {"size": "1", "notes": [{"text": "a"}, {"text": 1, "more": "2"}, 3]})
    assert caught.value.lines == [
        "box: size: expected a whole number",
        "box: notes 2: text: expected a string",
        "box: notes 2: more: expected a whole number",
        "box: notes 3: expected an object",
    ]
    assert str(caught.value) == caught.value.lines[0]
    with pytest.raises(DataError, match="box: size: expected at most 9"):
        JSON.read(Box, "box", {"size": 10, "notes": []})


def test_typed_object_stays_what_it_is_with_null_for_what_is_missing() -> None:
    assert JSON.read(Note, "", {"text": "a", "x": 1}) == {"text": "a", "x": 1, "by": None}


def test_newer_file_is_refused_and_a_damaged_one_is_named() -> None:
    hint = Annotated[int, refuse_newer(2)]
    assert from_bytes(hint, "2") == 2
    with pytest.raises(HtoolsError, match="written by a newer htoolsd"):
        from_bytes(hint, "3")
    with pytest.raises(DataError, match="not JSON: "):
        from_bytes(hint, "{")


def test_record_is_written_as_objects() -> None:
    assert to_text([Expense(1)]).split() == ["[", "{", '"moves":', "1,", '"run":', '""', "}", "]"]
