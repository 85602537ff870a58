from dataclasses import asdict, astuple

import pytest

from ganeti_htools.commandline.plans import balancing_of, copying_of, execution_of, view_of
from ganeti_htools.commandline.programs import HBAL
from ganeti_htools.commandline.reading import parse_or_exit
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.planning.plan import Execution
from ganeti_htools.planning.view import View


def test_defaults_of_options_are_those_of_plans() -> None:
    line = parse_or_exit(HBAL, [])
    assert view_of(line) == View()
    assert balancing_of(line) == BalancingOptions()
    assert execution_of(line) == Execution()


def test_each_option_of_balancing() -> None:
    words = [
        *("--no-disk-moves", "--no-instance-moves", "--restricted-migration", "--evac-mode"),
        *("--ignore-soft-errors", "--min-gain=1", "--min-gain-limit=2", "--min-score=3", "-l4"),
        *("--avoid-disk-moves=5", "--avoid-long-solutions=6", "--long-solution-threshold=7"),
    ]
    usual, wished = asdict(BalancingOptions()), asdict(balancing_of(parse_or_exit(HBAL, words)))
    # Only hsqueeze lets instances without a mirror leave nodes.
    assert [name for name in usual if wished[name] == usual[name]] == ["unmirrored"]
    numbers = [wished[name] for name in ("min_gain", "min_gain_limit", "min_score", "max_length")]
    assert numbers == [1, 2, 3, 4]


def test_each_option_of_execution() -> None:
    words = ["--on-change=stop", "--wait-for-nodes", "--reason=why", "--priority=low", "--parallel=2"]
    assert execution_of(parse_or_exit(HBAL, words)) == Execution("stop", True, "why", "low", 2)


def test_each_option_of_view() -> None:
    line = parse_or_exit(
        HBAL,
        [
            *("-Onode1", "--exclusion-tags=a,b", "--min-disk=0.5", "--max-cpu=3", "--ignore-dynu"),
            *("--select-instances=i", "--exclude-instances=j", "--static-kvm-node-memory=7"),
            *("--move-diskless", "--load=real"),
        ],
    )
    assert astuple(view_of(line)) == (("node1",), ("a", "b"), 0.5, 3.0, 7, ("i",), ("j",), True, True, "real")


def test_plan_to_pick_has_no_default() -> None:
    assert copying_of(parse_or_exit(HBAL, ["--front", "--pick=3"])).front == 10
    with pytest.raises(SystemExit):
        parse_or_exit(HBAL, ["--front", "--pick="])


def test_free_copying_chooses_the_most_even_plan() -> None:
    assert copying_of(parse_or_exit(HBAL, ["--price=0"])).most_even
    assert not copying_of(parse_or_exit(HBAL, ["--price=0,1"])).most_even
    assert not copying_of(parse_or_exit(HBAL, [])).wanted
