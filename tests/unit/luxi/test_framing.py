from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.luxi.framing import END, Decoder, FramingError, decode, encode

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """``data`` cut at the given places."""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(st.lists(JSON_VALUES), st.lists(st.integers(0, 10000)))
def test_messages_survive_any_split(values: list[object], cuts: list[int]) -> None:
    stream = b"".join(map(encode, values))
    decoder = Decoder(len(stream) + 1)
    received = [decode(message) for piece in pieces(stream, cuts) for message in decoder.feed(piece)]
    decoder.finish()
    assert received == values


@given(JSON_VALUES)
def test_end_byte_is_only_at_the_end(value: object) -> None:
    assert encode(value).index(END) == len(encode(value)) - 1


@given(st.lists(st.binary(), max_size=8), st.integers(1, 20), st.integers(1, 7))
def test_message_beyond_the_limit_is_refused(payloads: list[bytes], limit: int, step: int) -> None:
    payloads = [payload.replace(END, b"") for payload in payloads]
    stream = b"".join(payload + END for payload in payloads)
    too_long = next((number for number, payload in enumerate(payloads) if len(payload) > limit), None)
    decoder = Decoder(limit)
    received: list[bytes] = []
    refused = False
    for start in range(0, len(stream), step):
        try:
            received += decoder.feed(stream[start : start + step])
        except FramingError:
            refused = True
            break
    assert refused == (too_long is not None)
    assert received == payloads[: len(received)]
    assert len(received) <= (len(payloads) if too_long is None else too_long)


def test_endless_message_is_refused_before_its_end() -> None:
    decoder = Decoder(10)
    assert decoder.feed(b"x" * 10) == []
    with pytest.raises(FramingError, match="longer than 10 bytes"):
        decoder.feed(b"x")


@pytest.mark.parametrize("message", [b"", b"{", b"nul", b"\xff", b'"\\ud800"', b"[" * 5000, b"1 2", b"NaN"])
def test_message_that_is_no_json_is_refused(message: bytes) -> None:
    with pytest.raises(FramingError, match=r"^message is not JSON: ") as caught:
        decode(message)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=40) | JSON_VALUES.map(orjson.dumps))
def test_any_bytes_are_a_value_or_a_framing_error(message: bytes) -> None:
    try:
        value = decode(message)
    except FramingError:
        return
    assert orjson.loads(message) == value


@pytest.mark.parametrize("value", [object(), 2**70, "\ud800", {1: 2}, {"a": [{3}]}])
def test_value_that_json_cannot_express_is_refused(value: object) -> None:
    with pytest.raises(FramingError, match="cannot be sent as JSON"):
        encode(value)


def test_end_of_stream_inside_a_message_is_refused() -> None:
    decoder = Decoder(100)
    decoder.feed(b"1\x03")
    decoder.finish()
    decoder.feed(b"[1, 2")
    with pytest.raises(FramingError, match="ended inside a message, after 5 bytes"):
        decoder.finish()
