"""The figures of the search for machine reassignment are those of the plain checker, move by move."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.roadef.checker import costs, violations
from bench.roadef.exchanges import Exchanges, ProcessExchanges, ProcessMove, ProcessMoves, changes
from bench.roadef.placement import Placement
from bench.roadef.problem import Problem
from bench.roadef.terms import terms_of
from ganeti_htools.engine.balancing.annealing import Annealing
from ganeti_htools.engine.balancing.tabu_search import TabuSearch
from tests.support.roadef import BY_HAND, problems

PRICE = 1000.0


def excess(problem: Problem, assignment: list[int]) -> int:
    """Compute how much of resources exceeds capacities; words of the checker have both figures."""
    found = 0
    for words in violations(problem, assignment):
        if " exceed " in words:
            amount, capacity = words.split(": ")[1].split(" of ")[0], words.split(" exceed ")[1]
            found += int(amount) - int(capacity)
    return found


def misplaced(problem: Problem, assignment: list[int]) -> int:
    """Count the violations of services one by one."""
    counts, services = Counter[tuple[int, int]](), [process.service for process in problem.processes]
    counts.update(zip(services, assignment, strict=True))
    found = sum(count - 1 for count in counts.values())
    for number, service in enumerate(problem.services):
        places = [each for own, each in zip(services, assignment, strict=True) if own == number]
        found += max(0, service.spread - len({problem.machines[each].location for each in places}))
    return found + sum(" is not in neighbourhood " in words for words in violations(problem, assignment))


@given(problems(), st.integers(0, 1000))
def test_figures_after_random_moves_are_those_of_the_checker(problem: Problem, seed: int) -> None:
    random, terms = np.random.RandomState(seed), terms_of(problem)
    placement = Placement(terms, terms.home)
    for _ in range(30):
        placement.move(random.randint(len(problem.processes)), random.randint(len(problem.machines)))
        at = placement.at.tolist()
        assert placement.score == costs(problem, at).total
        assert placement.misplaced == misplaced(problem, at)
        assert placement.violation == excess(problem, at) + placement.unit * misplaced(problem, at)


@given(problems(), st.integers(0, 1000))
def test_rated_changes_are_those_of_the_checker(problem: Problem, seed: int) -> None:
    random, terms = np.random.RandomState(seed), terms_of(problem)
    needs = {(one, two) for one, service in enumerate(problem.services) for two in service.needs}
    placement = Placement(terms, terms.home)
    for _ in range(5):
        found = ProcessExchanges(placement, 1).propose(random, 20, PRICE).found
        rated = changes(placement, found, PRICE)
        before = placement.score + PRICE * placement.violation
        for which, (one, two, machine) in enumerate(zip(*map(np.ndarray.tolist, found), strict=True)):
            here = int(placement.at[one])
            if here == machine:
                assert rated[which] == np.inf
                continue
            back = [(one, here), *([(two, machine)] if two < len(problem.processes) else [])]
            placement.move(one, machine)
            if len(back) > 1:
                placement.move(two, here)
            pair = int(placement.service[one]), int(placement.service[two])
            if not {pair, pair[::-1]} & needs:
                after = placement.score + PRICE * placement.violation
                assert np.isclose(rated[which], after - before, rtol=1e-9, atol=1e-3)
            for move in back:
                placement.move(*move)
        placement.move(random.randint(len(problem.processes)), random.randint(len(problem.machines)))


@given(problems(), st.booleans())
def test_best_visited_assignment_breaks_no_rule(problem: Problem, tabu: bool) -> None:
    terms = terms_of(problem)
    placement = Placement(terms, terms.home)
    if tabu:
        search = TabuSearch[ProcessMove](ProcessMoves(placement))
        for _ in range(20):
            search.step(PRICE)
    else:
        for _ in Annealing(ProcessExchanges(placement, 10)).round(PRICE, 1.0):
            pass
    (best,) = placement.best
    assert list(violations(problem, best.pnode.tolist())) == []
    assert costs(problem, best.pnode.tolist()).total == best.score
    assert best.score <= costs(problem, problem.initial).total


@given(problems(), st.integers(0, 1000))
def test_part_is_solved_as_by_trying_all_its_assignments(problem: Problem, seed: int) -> None:
    highs = pytest.importorskip("bench.roadef.highs", exc_type=ImportError)
    random, placement = np.random.RandomState(seed), visited(problem, seed)
    machines = np.sort(random.permutation(len(problem.machines))[:3])
    free = random.permutation(np.flatnonzero(np.isin(placement.at, machines)))[:4]
    expected, at = placement.score, placement.at.tolist()
    for each in itertools.product(machines.tolist(), repeat=len(free)):
        for process, machine in zip(free.tolist(), each, strict=True):
            at[process] = machine
        if next(violations(problem, at), None) is None:
            expected = min(expected, costs(problem, at).total)
    solved = highs.solve_part(placement, free, machines, 60, 0.0)
    assert solved.proved
    for process, machine in zip(free.tolist(), solved.assignment.tolist(), strict=True):
        placement.move(process, machine)
    assert list(violations(problem, placement.at.tolist())) == []
    assert np.isclose(placement.score, expected, rtol=1e-9)


def test_part_without_time_stays_where_it_is() -> None:
    highs = pytest.importorskip("bench.roadef.highs", exc_type=ImportError)
    terms = terms_of(BY_HAND)
    placement = Placement(terms, terms.home)
    solved = highs.solve_part(placement, np.arange(3), np.arange(3), 0.0, 0.0)
    assert solved.assignment.tolist() == list(BY_HAND.initial)


@given(problems(), st.integers(0, 1000))
def test_refilled_machines_break_no_rule_and_cost_no_more(problem: Problem, seed: int) -> None:
    refill = pytest.importorskip("bench.roadef.refill", exc_type=ImportError)
    placement = visited(problem, seed)
    search, score = refill.Refill(placement, seed), placement.score
    for share in refill.SHARES:
        free, machines = search.choose(share, 6)
        assert len(free) <= 6
        assert set(placement.at[free].tolist()) <= set(machines.tolist())
    for _ in range(5):
        search.step()
        assert list(violations(problem, placement.at.tolist())) == []
        assert placement.score <= score
        score = placement.score
    assert placement.best[0].score == score


def visited(problem: Problem, seed: int) -> Placement:
    """Return the best of some places that annealing visits."""
    terms = terms_of(problem)
    placement = Placement(terms, terms.home)
    for _ in Annealing(ProcessExchanges(placement, 10), seed).round(PRICE, 1.0):
        pass
    return Placement(terms, placement.best[0].pnode)


@given(problems())
def test_more_exchanges_are_rated_where_fewer_are_made(problem: Problem) -> None:
    terms, random = terms_of(problem), np.random.RandomState(0)
    exchanges = ProcessExchanges(Placement(terms, terms.home), 10)
    first = exchanges.propose(random, 5000, PRICE)
    second = exchanges.propose(random, 5000, PRICE)
    second.made = len(terms.base)
    third = exchanges.propose(random, 5000, PRICE)
    assert len(second.changes) > len(first.changes)
    assert len(third.changes) < len(second.changes)
    assert len(exchanges.propose(random, 20, PRICE).changes) == 20


def test_exchanges_are_taken_by_marks() -> None:
    found = Exchanges(np.array([1, 2]), np.array([3, 4]), np.array([5, 6])).take(np.array([False, True]))
    assert [column.tolist() for column in found] == [[2], [4], [6]]
