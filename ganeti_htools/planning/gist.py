"""A decision in a few words, for a log."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ganeti_htools.engine.allocation.evacuate import Evacuation
from ganeti_htools.engine.decide import Decision
from ganeti_htools.model import request as wanted
from ganeti_htools.model.errors import RequestFailed

MOST = 10  # instances that are named

_TYPES = {
    wanted.Allocate: "allocate",
    wanted.MultiAllocate: "multi-allocate",
    wanted.AllocateSecondary: "allocate-secondary",
    wanted.Relocate: "relocate",
    wanted.NodeEvacuate: "node-evacuate",
    wanted.ChangeGroup: "change-group",
}


@dataclass(frozen=True, slots=True)
class Gist:
    """What was asked for, and what came of it.

    ``nodes`` are those chosen for each instance that has found a place, in the order of the request, and
    ``groups`` are theirs. ``score`` is that of the cluster with the last one in place. ``refusal`` says why
    not all of them have found one.
    """

    request: str
    instances: Sequence[str]
    nodes: Sequence[Sequence[str]] = ()
    groups: Sequence[str] = ()
    score: Any = None
    refusal: str | None = None

    def told(self) -> dict[str, Any]:
        """The gist as JSON, without what is empty; of many instances only the first are named."""
        parts = {key: value for key, value in asdict(self).items() if value not in (None, (), [])}
        short = {key: value[:MOST] for key, value in parts.items() if key in ("instances", "nodes", "groups")}
        more = len(self.instances) - MOST
        return {**parts, **short, **({"more_instances": more} if more > 0 else {})}


def gist(request: wanted.Request, outcome: Decision | RequestFailed) -> Gist:
    """The gist of a request and what came of it."""
    kind, names = _TYPES[type(request)], list(wanted.instances_of(request))
    if isinstance(outcome, RequestFailed):
        return Gist(kind, names, refusal=str(outcome))
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
    groups = {state.cluster.groups[state.group[row]].name: None for nodes in places for row in nodes[:1]}
    return Gist(
        kind,
        names,
        [state.names(nodes) for nodes in places],
        list(groups),
        score,
        "; ".join(failed[:MOST]) or None,
    )
