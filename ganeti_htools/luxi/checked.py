"""Requests to luxid whose answers are checked for their shape."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ganeti_htools.luxi.client import PATIENCE, AnswerError, LuxiClient

Value = TypeVar("Value")


async def call(
    client: LuxiClient,
    method: str,
    args: Sequence[object],
    read: Callable[[Any], Value],
    patience: float = PATIENCE,
) -> Value:
    """Return what ``read`` makes of a result; it may raise TypeError, ValueError and LookupError."""

    def expect(result: Any) -> Value:
        with shape_errors(method):
            return read(result)

    value: Value = await client.call(method, args, patience, expect=expect)
    return value


@contextmanager
def shape_errors(what: str) -> Iterator[None]:
    """Turn errors about the shape of an answer to ``what`` into AnswerError."""
    try:
        yield
    except (TypeError, ValueError, LookupError) as error:
        raise AnswerError(f"{what}: the answer has an unexpected shape") from error


def exactly(kind: type[Value], value: object) -> Value:
    """Return the value if it is exactly of that type. Raises TypeError."""
    if type(value) is not kind:
        raise TypeError
    return value


def list_of(value: object, length: int | None = None) -> list[Any]:
    """Return the value if it is a list, of that length if given. Raises TypeError, ValueError."""
    values = exactly(list, value)
    if length is not None and len(values) != length:
        raise ValueError
    return values
