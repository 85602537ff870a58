"""What a policy has decided about a node group."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about a node group (empty: about none, for the cluster could not be judged), and why.

    ``remedy`` is what was thought of. ``outcome`` is "held back", "would act", "proposed", "begun" or
    "failed"; ``plan`` the id of the plan that was made, ``moves`` what it does, ``powered`` the nodes that it
    powers down or up. ``since`` tells how the last moves that were only computed (in the mode shadow) compare
    with what came: the score that was expected, and what has moved without them.
    """

    time: float
    policy: str
    remedy: str
    mode: str
    trigger: str
    group: str
    outcome: str
    reason: str
    score: Mapping[str, float | None]
    plan: str | None = None
    moves: tuple[Mapping[str, Any], ...] = ()
    powered: tuple[str, ...] = ()
    since: Mapping[str, Any] | None = None


HELD, WOULD, PROPOSED, BEGUN, FAILED = "held back", "would act", "proposed", "begun", "failed"
