"""Readers of arguments for argparse. All raise ArgumentTypeError for a text of another kind."""

import math
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import TypeVar

from ganeti_htools.backends import values
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.resource_classes import MEMORY, is_disk

_DIGITS = 15

T = TypeVar("T")


def count(text: str) -> int:
    """Read a whole number from 0 on."""
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise ArgumentTypeError(f"expected a whole number, got {text!r}")
    return int(text)


def number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ArgumentTypeError(f"expected a number, got {text!r}")
    return found


def argument(read: Callable[[str], T]) -> Callable[[str], T]:
    """Make a reader for argparse of one that raises DataError."""

    def reader(text: str) -> T:
        try:
            return read(text)
        except DataError as error:
            raise ArgumentTypeError(str(error)) from None

    return reader


duration = argument(values.duration)  # seconds from a number and a unit: s, min, h or d; no unit is seconds
size = argument(values.binary_size)  # MiB from a number and perhaps a unit, like 4g


def amount(resource_class: str, text: str) -> int:
    """Read an amount of a resource class; that of memory and disk is MiB and may have a unit, like 4g."""
    if text.isdigit() or not (resource_class == MEMORY or is_disk(resource_class)):
        return count(text)
    return size(text)
