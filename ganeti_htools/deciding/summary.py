"""Summary of a decision, for the log and the history."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ganeti_htools.engine.allocation.evacuate import Evacuation
from ganeti_htools.engine.decide import Decision
from ganeti_htools.model import request as wanted
from ganeti_htools.model.errors import RequestFailed

MAX_NAMED = 10  # instances

_TYPES = {
    wanted.Allocate: "allocate",
    wanted.MultiAllocate: "multi-allocate",
    wanted.AllocateSecondary: "allocate-secondary",
    wanted.Relocate: "relocate",
    wanted.NodeEvacuate: "node-evacuate",
    wanted.ChangeGroup: "change-group",
}


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """Summary of a request and its decision.

    * ``nodes``: the nodes of each placed instance, in the order of the request.
    * ``groups``: the groups of these nodes.
    * ``score``: the score of the cluster with the last instance in place.
    * ``refusal``: why some instances have no place.
    """

    request: str
    instances: Sequence[str]
    nodes: Sequence[Sequence[str]] = ()
    groups: Sequence[str] = ()
    score: Any = None
    refusal: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON, without empty values; only the first instances are named."""
        parts = {key: value for key, value in asdict(self).items() if value not in (None, (), [])}
        short = {
            key: value[:MAX_NAMED] for key, value in parts.items() if key in ("instances", "nodes", "groups")
        }
        more = len(self.instances) - MAX_NAMED
        return {**parts, **short, **({"more_instances": more} if more > 0 else {})}


def request_type(request: wanted.Request) -> str:
    """Return the type of a request, as Ganeti names it."""
    return _TYPES[type(request)]


def summarize(request: wanted.Request, outcome: Decision | RequestFailed) -> DecisionSummary:
    kind, names = request_type(request), list(wanted.instances_of(request))
    if isinstance(outcome, RequestFailed):
        return DecisionSummary(kind, names, refusal=str(outcome))
    state, result = outcome.state, outcome.result
    if isinstance(result, Evacuation):
        rows = state.cluster.instances
        places = [each.nodes for each in result.moved]
        failed = [f"{rows[index].name}: {reason}" for index, reason in result.failed]
        score = None
    else:
        places = [each.nodes for each in result if each.nodes]
        failed = [f"{each.instance}: {each.info}" for each in result if not each.nodes]
        score = result[-1].metric if result else None
    groups = {state.group_name(row): None for nodes in places for row in nodes[:1]}
    return DecisionSummary(
        kind,
        names,
        [state.names(nodes) for nodes in places],
        list(groups),
        score,
        "; ".join(failed[:MAX_NAMED]) or None,
    )
