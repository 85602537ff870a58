"""What policies see of a node group, made by hand."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning.proposal import Proposal
from htoolsd.policies.bounds import Bounds
from htoolsd.policies.conditions import Need
from htoolsd.policies.looking import measured
from htoolsd.policies.memory import Room
from htoolsd.policies.policy import Facts, Planned, Remedy
from htoolsd.policies.settings import Rebalance, Redistribute, Settings, Squeeze

WIDE = Room(1000, 1 << 30)


def facts(score: float, n1: int = 0) -> Facts:
    """A node group without nodes, of which only figures are known."""
    cluster = Cluster((Group("rack1", "uuid"),), (), ())
    return Facts(cluster, "rack1", derive(cluster), np.zeros(0, np.bool_), score, n1)


def planned(
    remedy: Remedy, cluster: Cluster, settings: Settings, group: str = "default", **bounds: Any
) -> Planned:
    """What would be done there, where budgets leave much room."""
    known: dict[str, Any] = {"room": WIDE} | bounds
    return remedy.planned(cluster, settings, Bounds(group, **known), lambda _text: None)


def needed(remedy: Remedy, cluster: Cluster, settings: Settings) -> dict[str, Need]:
    """What is needed in each node group."""
    return {found.group: found.need for found in measured(remedy, settings, cluster)}


def all_off(**settings: Settings) -> dict[str, Settings]:
    """The settings of all policies: those that are not told are off."""
    return {"redistribute": Redistribute(), "squeeze": Squeeze(), "rebalance": Rebalance()} | settings


async def none_again(_facts: Mapping[str, Any]) -> Proposal:
    """Of a policy's plan where there are no policies."""
    raise HtoolsError("there are no policies")
