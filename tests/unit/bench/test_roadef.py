"""Files, checker and search of the machine reassignment problem of ROADEF/EURO 2012."""

import sys
from pathlib import Path

import pytest

from bench.roadef.checker import Costs, costs, violations
from bench.roadef.files import FileError, assignment_text, read_problem
from bench.roadef.generator import Size, generated
from bench.roadef.problem import Problem
from bench.roadef.rows import BEST, OWN
from bench.roadef.search import AGAIN, DEAR, FIRST, LAST, Cooling, price, search
from tests.support.roadef import BY_HAND


def model_text(problem: Problem) -> str:
    """Write a problem, without the assignment, as a model file of the challenge has it."""
    lines = [
        [len(problem.resources)], *([int(each.transient), each.load_weight] for each in problem.resources),
        [len(problem.machines)],
        *([each.neighbourhood, each.location, *each.capacity, *each.safety_capacity, *each.move_costs]
          for each in problem.machines),
        [len(problem.services)], *([each.spread, len(each.needs), *each.needs] for each in problem.services),
        [len(problem.processes)],
        *([each.service, *each.requirement, each.move_cost] for each in problem.processes),
        [len(problem.balances)], *(list(each) for each in problem.balances),
        list(problem.weights),
    ]  # fmt: skip
    return "".join(" ".join(map(str, line)) + "\n" for line in lines)


def written(directory: Path, model: str, assignment: str) -> tuple[Path, Path]:
    paths = directory / "model", directory / "assignment"
    for path, text in zip(paths, (model, assignment), strict=True):
        path.write_text(text)
    return paths


def test_problem_is_read_as_it_was_written(tmp_path: Path) -> None:
    paths = written(tmp_path, model_text(BY_HAND), assignment_text(BY_HAND.initial))
    assert read_problem(*paths) == BY_HAND


@pytest.mark.parametrize(
    ("model", "assignment", "expected"),
    [
        ("1\n2 10", "", "model:2: transient or not must be below 2, not 2"),
        ("1\n0 ten", "", "model:2: a weight of load must be a whole number, not 'ten'"),
        ("1\n0 -1", "", "model:2: a weight of load must be a whole number, not '-1'"),
        ("1\n0 10", "", "model:2: the file ends before the number of machines"),
        (model_text(BY_HAND) + "\n5", "", "model:19: the file should end here, not go on with '5'"),
        (model_text(BY_HAND), "0 2\n3", "assignment:2: a machine must be below 3, not 3"),
        (model_text(BY_HAND), "0 2 0 1", "assignment:1: the file should end here, not go on with '1'"),
    ],
)
def test_bad_file_is_refused_by_its_line(tmp_path: Path, model: str, assignment: str, expected: str) -> None:
    with pytest.raises(FileError) as error:
        read_problem(*written(tmp_path, model, assignment))
    assert str(error.value) == f"{tmp_path}/{expected}"


def test_costs_of_the_first_assignment() -> None:
    # Machine 0 uses 18, 80: 2 above the safe 16. Free are 12, 20: 20 * 12 - 20 = 220 out of balance.
    # Machine 1 is empty: 10, 100 free, 100 out of balance. Machine 2: 5, 80 free, 20 out of balance.
    assert costs(BY_HAND, BY_HAND.initial) == Costs(200, 7 * (220 + 100 + 20), 0, 0, 0)
    assert list(violations(BY_HAND, BY_HAND.initial)) == []


def test_costs_after_a_move() -> None:
    # Machine 0: 12, 10 used; 18, 90 free. Machine 1: 6, 70 used; 4, 30 free.
    assert costs(BY_HAND, [0, 2, 1]) == Costs(0, 7 * (270 + 50 + 20), 1, 10, 100)


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ([1, 2, 0], ["machine 1: 12 of resource 0 exceed 10"]),
        ([0, 1, 0], ["service 0: 1 locations instead of 2"]),
        (
            [0, 0, 0],
            ["service 0: 2 processes on machine 0", "service 0: 1 locations instead of 2"],
        ),
        (
            [2, 2, 2],
            [
                "machine 2: 28 of resource 0 exceed 15",
                "service 0: 2 processes on machine 2",
                "service 0: 1 locations instead of 2",
            ],
        ),
        (
            [0, 1, 2],
            ["service 0: 1 locations instead of 2", "service 1: service 0 is not in neighbourhood 1"],
        ),
    ],
)
def test_broken_rules_are_named(assignment: list[int], expected: list[str]) -> None:
    assert list(violations(BY_HAND, assignment)) == expected


def test_transient_amounts_count_on_both_machines() -> None:
    crowded = BY_HAND._replace(processes=[each._replace(requirement=[1, 30]) for each in BY_HAND.processes])
    crowded = crowded._replace(initial=[0, 2, 2])
    assert list(violations(crowded, [0, 2, 2])) == []
    crowded = crowded._replace(
        processes=[*crowded.processes[:2], crowded.processes[2]._replace(requirement=[1, 71])]
    )
    assert list(violations(crowded, [0, 2, 0])) == [
        "machine 0: 101 of resource 1 exceed 100",
        "machine 2: 101 of resource 1 exceed 100",
    ]


def test_generated_problems_are_equal_and_break_no_rule() -> None:
    problem = generated(3, Size(6, 40, 20))
    assert problem == generated(3, Size(6, 40, 20))
    assert list(violations(problem, problem.initial)) == []
    assert any(each.needs for each in problem.services)
    assert any(each.spread > 1 for each in problem.services)


def test_search_comes_close_to_the_best_known_of_a_small_problem() -> None:
    problem = read_problem(OWN / "model_a1_1.txt", OWN / "assignment_a1_1.txt")
    assert costs(problem, problem.initial).total == 49_528_750
    found = search(problem, 2.0)
    assert list(violations(problem, found)) == []
    assert costs(problem, found).total <= 1.01 * BEST["a1_1"]


def test_search_without_highs_breaks_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bench.roadef.refill", None)
    problem = generated(5, Size(4, 16, 10))
    found = search(problem, 0.5)
    assert list(violations(problem, found)) == []
    assert costs(problem, found).total < costs(problem, problem.initial).total


@pytest.mark.parametrize("cooling", [FIRST, AGAIN])
def test_price_rises_in_waves_from_lowest_prices_that_rise(cooling: Cooling) -> None:
    waves = [
        [price(cooling, (wave + part / 10) / cooling.waves) for part in range(10)]
        for wave in range(cooling.waves)
    ]
    for wave in waves:
        assert wave[:8] == sorted(set(wave[:8]))
        assert wave[8:] == pytest.approx([DEAR, DEAR])
    lowest = [wave[0] for wave in waves]
    assert lowest == sorted(set(lowest))
    assert (lowest[0], price(cooling, 1.0)) == pytest.approx((cooling.cheap, LAST))


def test_search_comes_close_to_what_highs_proves() -> None:
    highs = pytest.importorskip("bench.roadef.highs", exc_type=ImportError)
    problem = generated(5, Size(4, 16, 10))
    solved = highs.solve(problem, 60)
    assert list(violations(problem, solved.assignment)) == []
    assert costs(problem, solved.assignment).total == round(solved.cost)
    found = costs(problem, search(problem, 1.5)).total
    assert round(solved.bound) <= found <= 1.01 * solved.cost
