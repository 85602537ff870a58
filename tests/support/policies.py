"""What policies see of a node group, made by hand."""

from datetime import datetime
from typing import Any

import numpy as np

from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.derive import derive
from htoolsd.policies.conditions import Need, Situation
from htoolsd.policies.looking import measured
from htoolsd.policies.memory import Room
from htoolsd.policies.policy import Facts, Planned, Remedy
from htoolsd.policies.settings import Rebalance, Redistribute, Settings, Squeeze

WIDE = Room(1000, 1 << 30)


def facts(score: float, n1: int = 0) -> Facts:
    """A node group without nodes, of which only figures are known."""
    cluster = Cluster((Group("rack1", "uuid"),), (), ())
    return Facts(cluster, "rack1", derive(cluster), np.zeros(0, np.bool_), score, n1)


def seen(group: str = "default", **changes: Any) -> Situation:
    """A group in which something has to be done, and nothing holds that back."""
    known: dict[str, Any] = {"need": Need(True, False, "it is needed"), "room": WIDE} | changes
    return Situation(0.0, datetime(2026, 1, 1), group, 1.0, **known)


def planned(
    remedy: Remedy, cluster: Cluster, settings: Settings, group: str = "default", **changes: Any
) -> Planned:
    """What would be done there."""
    return remedy.planned(cluster, settings, seen(group, **changes), lambda _text: None)


def needed(remedy: Remedy, cluster: Cluster, settings: Settings) -> dict[str, Need]:
    """What is needed in each node group."""
    return {found.group: found.need for found in measured(remedy, settings, cluster)}


def all_off(**settings: Settings) -> dict[str, Settings]:
    """The settings of all policies: those that are not told are off."""
    return {"redistribute": Redistribute(), "squeeze": Squeeze(), "rebalance": Rebalance()} | settings
