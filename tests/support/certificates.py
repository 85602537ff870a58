"""Plans of tests, judged (``hcheck --plan``)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import orjson

from ganeti_htools.judge.judge import Certificate, judge
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning import options as options_of_plans
from ganeti_htools.planning import plan as planning_plan
from ganeti_htools.planning.plan import Tool, ToolPlan, silent_progress, statement


def document(tool: str, plan: ToolPlan[Any], cluster: Cluster) -> Any:
    """Describe a plan as the JSON that its tool prints."""
    described = orjson.dumps({"plan": statement(tool, plan, cluster)}, option=orjson.OPT_SERIALIZE_NUMPY)
    return orjson.loads(described)


@contextmanager
def judging() -> Iterator[None]:
    """Judge each plan that a tool prints as JSON within this process."""

    def judged(tool: str, plan: ToolPlan[Any], cluster: Cluster) -> Any:
        findings = judge(cluster, document(tool, plan, cluster)).findings
        assert not findings, findings
        return statement(tool, plan, cluster)

    with patch.object(planning_plan, "statement", judged):
        yield


def planned(tool: Tool[Any, Any], cluster: Cluster, **options: Any) -> Any:
    """Plan with a tool for a cluster, and describe the plan. Raises HtoolsError."""
    wishes = options_of_plans.from_json(tool.options, options)
    with silent_progress() as progress:
        return document(tool.name, tool.plan(tool.state_of(cluster, wishes), wishes, progress), cluster)


def certified(tool: Tool[Any, Any], cluster: Cluster, **options: Any) -> Certificate:
    """Plan with a tool for a cluster, and judge the plan. Raises HtoolsError."""
    return judge(cluster, planned(tool, cluster, **options))
