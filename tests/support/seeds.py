"""Seeds of random cases that are too many to be tried whenever a change is judged."""

from typing import Any

import pytest


def parts(number: int, size: int) -> list[Any]:
    """Seeds from 0, in parts of some ``size``; the second half of them only for ``make test-long``."""
    return [
        pytest.param(range(start, start + size), marks=pytest.mark.long if 2 * start >= number else ())
        for start in range(0, number, size)
    ]
