"""A repeated answer is read like a first one, however it is written."""

from typing import Any

import orjson
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import AnswerError, LuxiClient
from ganeti_htools.luxi.framing import FramingError, decode
from htoolsd.sync.model import TABLES
from htoolsd.sync.requests import AnswerReader, RepeatedRequest, table_requests
from tests.support.memory_luxid import MemoryLuxid

FIELDS = ("name", "value")
TEXTS = st.text(st.sampled_from('a"]],[[0\\'), max_size=8)
CELLS = st.tuples(st.sampled_from([0, 1, 2]), TEXTS | st.integers(-9, 9) | st.lists(TEXTS, max_size=2))
ROWS = st.lists(st.tuples(CELLS, CELLS), max_size=4)


def written(rows: Any, option: int | None = None) -> bytes:
    fields = [{"name": name, "doc": '"data":[[[0,1]]]'} for name in FIELDS]
    return orjson.dumps({"success": True, "result": {"fields": fields, "data": rows}}, option=option)


def plain(message: bytes) -> object:
    answer = decode(message)
    match answer:
        case {"success": True, "result": result}:
            return {"success": True, "result": queries.rows("thing", FIELDS, result)}
    return answer


@given(st.lists(st.tuples(ROWS, st.booleans()), max_size=4))
def test_answers_equal_those_read_as_a_whole(answers: list[tuple[Any, bool]]) -> None:
    reader = AnswerReader("thing", FIELDS)
    for rows, indented in answers:
        message = written(rows, orjson.OPT_INDENT_2 if indented else None)
        assert reader.read(message) == plain(message)


@given(ROWS, ROWS, st.data())
def test_damaged_answers_are_refused_as_when_read_as_a_whole(
    first: Any, second: Any, data: st.DataObject
) -> None:
    reader, message = AnswerReader("thing", FIELDS), bytearray(written(second))
    reader.read(written(first))
    place = data.draw(st.integers(0, len(message) - 1))
    end = place + data.draw(st.integers(0, 3))
    message[place:end] = data.draw(st.sampled_from([b"", b"]", b'"', b"[["]))
    damaged = bytes(message)
    try:
        expected = plain(damaged)
    except (FramingError, AnswerError) as error:
        with pytest.raises(type(error)):
            reader.read(damaged)
    else:
        assert reader.read(damaged) == expected


def test_unchanged_rows_are_the_same_objects() -> None:
    reader = AnswerReader("thing", FIELDS)

    def read(*values: int) -> list[Any]:
        answer: Any = reader.read(written([[[0, f"n{value}"], [0, value]] for value in values]))
        result: list[Any] = answer["result"]
        return result

    one, two, three = read(1, 2, 3)
    again = read(3, 4, 1)
    assert (again[0] is three, again[2] is one) == (True, True)
    assert again[1].values == {"name": "n4", "value": 4}
    assert read(1, 2)[1] is not two


def test_refusal_is_passed_on() -> None:
    refusal = {"success": False, "result": ["OpPrereqError", ["no"]]}
    assert AnswerReader("thing", FIELDS).read(orjson.dumps(refusal)) == refusal


async def test_same_answer_is_parsed_once() -> None:
    luxid, read = MemoryLuxid(), list[bytes]()

    def note(message: bytes) -> object:
        read.append(message)
        return {"success": True, "result": [len(read)]}

    async def answer(*results: int) -> None:
        connection = await luxid.accept()
        for result in results:
            assert await connection.hear() == b'{"method":"Ask","args":["a"]}\x03'
            await connection.answer(result)

    request = RepeatedRequest("Ask", ["a"], note)
    async with LuxiClient("/luxi", luxid.connect) as client, trio.open_nursery() as nursery:
        nursery.start_soon(answer, 5, 5, 6)
        first, second, third = [await request.ask(client, 60) for _ in range(3)]
    assert second is first
    assert third == [2]
    assert len(read) == 2


def test_every_table_has_a_request() -> None:
    asked = table_requests()
    assert {kind: set(requests) for kind, requests in asked.items()} == {
        kind: set(names) for kind, names in TABLES.items()
    }


def test_objects_are_asked_for_before_those_that_they_name() -> None:
    configuration, _ = table_requests().values()
    assert list(configuration) == ["instances", "networks", "nodes", "groups", "cluster"]
