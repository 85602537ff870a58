"""Seeds of random cases: a few for every run, the others for ``make test-long``."""

from typing import Any

import pytest


def parts(number: int, size: int) -> list[Any]:
    """Divide seeds from 0 into parts of ``size``; all but the first eighth are marked ``long``."""
    return [
        pytest.param(range(start, start + size), marks=pytest.mark.long if 8 * start >= number else ())
        for start in range(0, number, size)
    ]


def few(seeds: range, number: int) -> list[Any]:
    """Return ``seeds`` for every run, and all seeds below ``number`` for ``make test-long``."""
    return [seeds, pytest.param(range(number), marks=pytest.mark.long)]


def one_by_one(number: int) -> list[Any]:
    """Return all seeds below ``number`` one by one; all but the first eighth are marked ``long``."""
    return [
        pytest.param(seed, marks=pytest.mark.long if 8 * seed >= number else ()) for seed in range(number)
    ]
