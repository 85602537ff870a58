"""Two searches at once, in processes of their own, and the better assignment of both."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from bench.roadef.checker import costs, violations
from bench.roadef.problem import Problem
from bench.roadef.search import search

CORES = 2


def best_of_two(problem: Problem, seconds: float, seed: int = 0) -> list[int]:
    """Search for so many seconds on each of two cores; the checker judges what is found."""
    with ProcessPoolExecutor(CORES, mp_context=get_context("spawn")) as pool:
        seeds = range(CORES * seed, CORES * (seed + 1))
        found: Sequence[list[int]] = list(pool.map(search, [problem] * CORES, [seconds] * CORES, seeds))
    for assignment in found:
        if broken := next(violations(problem, assignment), None):
            raise AssertionError(f"the search has broken a rule: {broken}")
    return min(found, key=lambda assignment: costs(problem, assignment).total)
