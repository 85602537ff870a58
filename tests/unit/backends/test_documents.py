import gc
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.backends.documents import (
    DEEPEST,
    DocumentError,
    RepeatedError,
    RepeatingObject,
    has_at_most,
    measure,
    parse_document,
    parse_with_repeats,
    without_garbage_collection,
)

texts = st.text(st.sampled_from('a,:[]{}"\\\n\x7fé字😀'), max_size=8) | st.text(max_size=5)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), 1 << 63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def counted(value: Any) -> int:
    """How many values there are, by looking at them."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(counted, inner))


def levels(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(levels, inner), default=0)


@given(value=values, plain=st.booleans(), spaced=st.booleans())
def test_a_document_is_measured_and_parsed(value: Any, plain: bool, spaced: bool) -> None:
    text = json.dumps(value, ensure_ascii=plain, indent=1 if spaced else None).encode("utf-8", "replace")
    expected = json.loads(text)
    most, depth = measure(text)
    empty = text.count(b"[]") + text.count(b"{}")
    assert counted(expected) <= most <= counted(expected) + empty
    assert depth == levels(expected)
    assert has_at_most(text, most)
    assert not has_at_most(text, most - 1)
    assert parse_document(text) == expected


@given(value=values, name=texts)
def test_a_name_that_stands_twice_is_found_wherever_it_is(value: Any, name: str) -> None:
    member = f"{json.dumps(name)}: {json.dumps(value)}"
    other = f"{json.dumps(name + 'x')}: [1, {{}}]"
    once, twice = f'{{"a": [{{{member}, {other}}}]}}', f'{{"a": [{{{member}, {other}, {member}}}]}}'
    assert parse_document(once.encode()) == json.loads(once)
    with pytest.raises(RepeatedError):
        parse_document(twice.encode())
    assert parse_with_repeats(twice.encode()) == json.loads(once)


@pytest.mark.parametrize(
    "twice",
    [
        b'{"a": 1, "a": 1}',
        b'{"a": 1, "\\u0061": 2}',
        b'{"a\\"": 1, "a\\u0022": 2}',
        b'{"\\\\": 1, "\\u005c": 2, "b": "\\""}',
        b'{"a": "\\"\\"", "a": ""}',
        b'{"a": ' + b"1" * 300 + b', "b": [{"c": 0, "c": 0}]}',
    ],
)
def test_however_a_name_is_written(twice: bytes) -> None:
    with pytest.raises(RepeatedError):
        parse_document(twice)


def test_the_first_of_a_name_counts_and_the_object_tells() -> None:
    text = b'{"a": {"b": [1, 2.5], "c": {}, "b": 3, "c": 4}, "d": {"e": 1}}'
    with pytest.raises(RepeatedError):
        parse_document(text)
    value = parse_with_repeats(text)
    assert value == {"a": {"b": [1, 2.5], "c": {}}, "d": {"e": 1}}
    assert isinstance(value["a"], RepeatingObject)
    assert value["a"].name == "c"
    assert not isinstance(value, RepeatingObject)
    assert not isinstance(value["d"], RepeatingObject)


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def test_depth_is_bounded_before_anything_is_parsed() -> None:
    assert parse_document(nested(DEEPEST))
    for deep in (nested(DEEPEST + 1), b"[" * 3_000_000, b'{"a":' * 1_000_000):
        with pytest.raises(DocumentError, match="within each other"):
            parse_document(deep)


def test_brackets_in_strings_hide_nothing_and_do_not_count() -> None:
    assert parse_document(json.dumps(["[{" * 1000]).encode()) == ["[{" * 1000]
    for text in (b'["' + b"]" * 1000 + b'",' + nested(DEEPEST) + b"]", b'["\\\\",' + nested(DEEPEST) + b"]"):
        with pytest.raises(DocumentError, match="within each other"):
            parse_document(text)


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("string", [b"\\\\" * 700_000, b'\\"[' * 700_000, b"x" * (1 << 21)])
def test_long_strings_end_where_they_end(string: bytes, shift: int) -> None:
    text = b'["' + b"x" * shift + string + b'",{"a":[]}]'
    assert measure(text) == (1 + 3 + 1, 3)


def test_there_may_be_many_values_and_none_too_many() -> None:
    assert has_at_most(b'["' + b"," * 1000 + b'"]', 2)
    assert not has_at_most(b"[],[]" * 1000, 3000)


def test_what_is_no_document_is_refused() -> None:
    for text in (b"", b"[", b'"', b"\\", b'\\"', b"{]", b'{"a"}', b"[1]]", b"\xff", b'"\\ud800"'):
        with pytest.raises(DocumentError):
            parse_document(text)


def test_the_collector_is_back_afterwards() -> None:
    with without_garbage_collection():
        with suppress(ZeroDivisionError), without_garbage_collection():
            raise ZeroDivisionError
        assert not gc.isenabled()
    assert gc.isenabled()
