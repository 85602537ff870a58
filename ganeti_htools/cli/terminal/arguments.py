"""Arguments that argparse reads. All raise ArgumentTypeError for text that is something else."""

import math
from argparse import ArgumentTypeError

_DIGITS = 15


def count(text: str) -> int:
    """A whole number from 0 up."""
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise ArgumentTypeError(f"expected a whole number, got {text!r}")
    return int(text)


def number(text: str) -> float:
    """A number."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ArgumentTypeError(f"expected a number, got {text!r}")
    return found
