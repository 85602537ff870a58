"""Typed options as JSON."""

from dataclasses import fields, replace
from typing import Any

import orjson
import pytest

from ganeti_htools.model.errors import DataError
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.planning.balancing import hbal
from ganeti_htools.planning.options import from_json, names, to_json
from ganeti_htools.planning.plan import Execution
from ganeti_htools.planning.squeezing import hsqueeze
from ganeti_htools.planning.tools import TOOLS
from ganeti_htools.planning.view import View

SOME = hbal.HbalOptions(
    view=View(offline=("n1", "n2"), max_cpu=4.0, min_disk=0.1, ignore_dynu=True),
    execution=Execution(on_change="stop", wait_for_nodes=True, reason="why not", priority="low", parallel=3),
    balancing=BalancingOptions(disk_moves=False, disk_moves_factor=1.5, max_length=3),
    group="default",
)
SQUEEZE = hsqueeze.SqueezeOptions(target_resources=0.5, stay_up={"n1": "has resources claimed by web1"})


@pytest.mark.parametrize("options", [SOME, hbal.HbalOptions(), SQUEEZE])
def test_options_survive_json(options: Any) -> None:
    assert from_json(type(options), orjson.loads(orjson.dumps(to_json(options)))) == options


def test_json_has_only_changed_options() -> None:
    assert to_json(hbal.HbalOptions()) == to_json(hsqueeze.SqueezeOptions()) == {}
    wanted = replace(hbal.HbalOptions(), view=View(offline=("n1",)), balancing=BalancingOptions(max_length=3))
    assert to_json(wanted) == {"offline": ["n1"], "max_length": 3}


@pytest.mark.parametrize("tool", TOOLS)
def test_no_option_name_is_used_twice(tool: str) -> None:
    kind = TOOLS[tool].options
    told = list(names(kind))
    assert len(told) == len(set(told)) > len(fields(kind))
    assert isinstance(kind().execution, Execution)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"colour": 1}, "colour: no such option, expected some of all_groups, "),
        ({"offline": "n1"}, "offline: expected a list of strings, got 'n1'"),
        ({"ignore_dynu": 1}, "ignore_dynu: expected true or false, got 1"),
        ({"group": 7}, "group: expected a string, got 7"),
        ({"max_length": 1.5}, "max_length: expected a whole number from -"),
        ({"max_length": 1 << 60}, "max_length: expected a whole number from -"),
        ({"static_kvm_node_memory": -1}, "static_kvm_node_memory: expected a whole number from 0 to "),
        ({"min_gain": "1"}, "min_gain: expected a number from 0 to "),
        ({"min_gain": -0.5}, "min_gain: expected a number from 0 to "),
        ({"min_gain": float("nan")}, "min_gain: expected a number from 0 to "),
        ({"max_cpu": "high"}, "max_cpu: expected a number from 0 to "),
        ({"max_cpu": 0}, "max_cpu: expected a ratio above 0"),
        ({"on_change": "hope"}, "on_change: expected replan or stop, got 'hope'"),
        ({"worst_group": True, "group": "a"}, "expected only one of the options group, worst-group and "),
        ({"worst_group": True, "all_groups": True}, "expected only one of the options group, "),
        ({"priority": "urgent"}, "priority: expected low or normal or high, got 'urgent'"),
    ],
)
def test_wrong_option_is_one_line(given: dict[str, object], problem: str) -> None:
    with pytest.raises(DataError) as caught:
        from_json(hbal.HbalOptions, given)
    assert str(caught.value).startswith(problem)


def test_null_is_accepted_for_optional_values() -> None:
    assert (
        from_json(hbal.HbalOptions, {"max_cpu": None, "group": None, "priority": None}) == hbal.HbalOptions()
    )
