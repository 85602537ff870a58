"""A request to luxid, and its answer as what it has to be."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ganeti_htools.luxi.client import PATIENCE, AnswerError, LuxiClient

Value = TypeVar("Value")


async def ask(
    client: LuxiClient,
    method: str,
    args: Sequence[object],
    read: Callable[[Any], Value],
    patience: float = PATIENCE,
) -> Value:
    """What ``read`` makes of the result of a request; it may raise TypeError, ValueError and LookupError."""

    def expect(result: Any) -> Value:
        with expecting(method):
            return read(result)

    value: Value = await client.call(method, args, patience, expect=expect)
    return value


@contextmanager
def expecting(what: str) -> Iterator[None]:
    """Errors about the shape of an answer become AnswerError, which names ``what`` was asked."""
    try:
        yield
    except (TypeError, ValueError, LookupError) as error:
        raise AnswerError(f"{what}: the answer has an unexpected shape") from error


def of(kind: type[Value], value: object) -> Value:
    """The value, which has to be of that type and no other. Raises TypeError."""
    if type(value) is not kind:
        raise TypeError
    return value


def listed(value: object, length: int | None = None) -> list[Any]:
    """The value, which has to be a list, perhaps of a known length. Raises TypeError, ValueError."""
    values = of(list, value)
    if length is not None and len(values) != length:
        raise ValueError
    return values
