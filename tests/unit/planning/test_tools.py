from dataclasses import is_dataclass
from typing import Any

import pytest

from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.options import from_json, to_json
from ganeti_htools.planning.plan import Execution, Tool
from ganeti_htools.planning.tools import TOOLS
from tests.support import by_hand
from tests.support.by_hand import instance

EVEN = by_hand.cluster(
    {"n0": 10_000, "n1": 10_000},
    [instance("a", DiskTemplate.EXT, "n0"), instance("b", DiskTemplate.EXT, "n1")],
)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_every_tool_plans_with_default_options(tool: Tool[Any, Any]) -> None:
    options = tool.options()
    assert is_dataclass(tool.options)
    assert options.execution == Execution()
    assert from_json(tool.options, to_json(options)) == options
    proposal = tool.propose(EVEN, options, lambda _text: None)
    assert proposal.groups == ("group1",)
    assert set(proposal.score) == {"before", "after"}
    assert "steps" in proposal.found
