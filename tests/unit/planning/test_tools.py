from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any

import orjson
import pytest

from ganeti_htools.luxi.opcodes import Opcode
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.options import from_json, to_json
from ganeti_htools.planning.plan import Execution, Tool, ToolPlan
from ganeti_htools.planning.tools import TOOLS
from tests.support import by_hand, messages
from tests.support.by_hand import instance

EVEN = by_hand.cluster(
    {"n0": 10_000, "n1": 10_000},
    [instance("a", DiskTemplate.EXT, "n0"), instance("b", DiskTemplate.EXT, "n1")],
)


def options_of(tool: Tool[Any, Any]) -> Any:
    """Default options; hmaintain needs a node besides and leaves only one other, hail needs a request."""
    given: dict[str, Any] = {}
    if tool.name == "hmaintain":
        given = {"nodes": ("n0",), "check_redundancy": False}
    elif tool.name == "hail":
        given = {"request": orjson.dumps(messages.allocate("new", "ext", memory=500)).decode()}
    return tool.options(**given)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_every_tool_plans_with_default_options(tool: Tool[Any, Any]) -> None:
    options = options_of(tool)
    assert is_dataclass(tool.options)
    assert options.execution == Execution()
    assert from_json(tool.options, to_json(options)) == options
    proposal = tool.propose(EVEN, options, lambda _text: None)
    assert proposal.groups == ("group1",)
    assert set(proposal.score) == {"before", "after"}
    assert "steps" in proposal.found


def opcodes_of(plan: ToolPlan[Any]) -> list[list[Sequence[Opcode]]]:
    return [[job.opcodes for job in jobs] for jobs in plan.jobs()]


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_restored_plan_has_the_same_jobs_and_description(tool: Tool[Any, Any]) -> None:
    rows = [instance(f"i{row}", DiskTemplate.EXT, "n0") for row in range(4)]
    cluster = by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 10_000), rows)
    options = options_of(tool)
    state = tool.state_of(cluster, options)
    plan = tool.plan(state, options, lambda _text: None)
    again = tool.restore(state, options, orjson.loads(orjson.dumps(plan.describe())))
    assert opcodes_of(again) == opcodes_of(plan)
    # Nothing is broken, and there is room.
    assert bool(opcodes_of(plan)) is (tool.name not in ("hail", "harep", "hregroup"))
    assert orjson.dumps(again.describe()) == orjson.dumps(plan.describe())


@pytest.mark.parametrize(
    "found", [{}, {"steps": None}, {"steps": [{"instance": "a", "parts": [[]]}], "phases": [1]}]
)
@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_a_description_of_another_form_is_an_error(tool: Tool[Any, Any], found: Any) -> None:
    options = options_of(tool)
    with pytest.raises(DataError):
        tool.restore(tool.state_of(EVEN, options), options, found)


def test_only_hsqueeze_spares_nodes() -> None:
    sparing = TOOLS["hsqueeze"].options().sparing({"n0": ["web1", "c2/web1"]})
    assert sparing.stay_up == {"n0": "has resources claimed by c2/web1, web1"}
    for name in ("hbal", "hregroup"):
        assert TOOLS[name].options().sparing({"n0": ["web1"]}) == TOOLS[name].options()
