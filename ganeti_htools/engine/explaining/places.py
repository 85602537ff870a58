"""Places of an instance: the reason against each, or its effect on the score."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ganeti_htools.engine.allocation import shortage
from ganeti_htools.engine.redundancy.checks import Check
from ganeti_htools.engine.rules import instance_policy, placement_rules
from ganeti_htools.engine.rules.node_rules import FAIL, FITS, Codes
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.engine.rules.trial import NodeChange, Trial, updated
from ganeti_htools.model.columns import NOWHERE, Bools, Floats
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail


@dataclass(frozen=True, slots=True)
class ExplainedPlace:
    """A primary and a secondary: rows, NOWHERE for none.

    * ``why`` is the reason against it. If empty, there is a ``score`` with its ``components`` (unweighted).
    * If lost allocations decide instead: ``lost`` later instances for each interval of the instance policy,
      largest disks first, and ``disk`` left (MiB).
    * ``lacks``: the missing storage units or custom resource classes, or the broken rules of tags, if they
      are the reason.
    """

    pnode: int
    snode: int
    why: str
    score: float = 0.0
    components: tuple[float, ...] = ()
    lost: tuple[int, ...] = ()
    disk: int = 0
    lacks: str = ""

    @property
    def rank(self) -> tuple[float, tuple[int, ...], int]:
        """The rank of the place; lower is better."""
        return self.score, self.lost, self.disk


def places(trial: Trial, redundant: Bools, base: Statistics) -> Iterator[ExplainedPlace]:
    """Yield the place of each candidate of a trial, with its effect on the statistics ``base``."""
    scores, parts = scored(base, trial.changes, trial.location_exclusion, trial.codes.shape)
    primaries, secondaries = (
        np.broadcast_to(rows, trial.codes.shape).tolist() for rows in (trial.pnode, trial.snode)
    )
    for i, (code, pnode) in enumerate(zip(trial.codes.tolist(), primaries, strict=True)):
        if code != FITS:
            yield ExplainedPlace(pnode, secondaries[i], FAIL[code].value)
        elif not redundant[i]:
            yield ExplainedPlace(pnode, secondaries[i], Fail.N1.value)
        else:
            figures = tuple(float(part[i]) for part in parts)
            yield ExplainedPlace(pnode, secondaries[i], "", float(scores[i]), figures)


def leave_redundant(trial: Trial, asked: RequestedInstance, redundancy: Check | None) -> Bools:
    """Find the candidates of a trial that leave the cluster redundant: single nodes, or pairs with one
    primary.

    The algorithms stop at the best redundant candidate; here all candidates are judged.
    """
    if redundancy is None:
        return np.ones(trial.codes.shape, np.bool_)
    good: Bools
    if asked.mirrored:
        good = redundancy.admissible(asked, trial.pnode[:1], trial.snode)[0]
    else:
        good = redundancy.admissible(asked, trial.pnode, None)
    primaries, secondaries = (
        np.broadcast_to(rows, trial.codes.shape).tolist() for rows in (trial.pnode, trial.snode)
    )
    for i in np.flatnonzero(good & (trial.codes == FITS)).tolist():
        good[i] = redundancy.fatal_loss(asked, primaries[i], secondaries[i]) == NOWHERE
    return good


def with_lacks(
    place: ExplainedPlace, state: State, asked: RequestedInstance, node: int, source: int = NOWHERE
) -> ExplainedPlace:
    """Add to a place what its node (row) lacks of storage units or custom classes, or the broken rules, if
    that is the reason.

    ``source`` is the node (row) from which disks would be copied to a new secondary.
    """
    if place.why == Fail.RESOURCE.value:
        as_secondary = node == place.snode
        return replace(place, lacks=shortage.describe_lack(state, asked, node, as_secondary, Fail.RESOURCE))
    if place.why == Fail.RULE.value:
        return with_broken_rules(place, state, asked)
    if place.why != Fail.DISK.value or not state.columns.shape.binds:
        return place
    if instance_policy.policy_codes(state, asked, np.array([node]))[0] != FITS:
        return place
    lacks = shortage.describe_lack(state, asked, node, secondary=node == place.snode)
    if not lacks and source != NOWHERE:
        lacks = shortage.no_source(state, asked, source)
        lacks = f"{state.cluster.nodes[source].name} {lacks}" if lacks and source != node else lacks
    if not lacks and asked.mirrored and place.snode == NOWHERE:
        lacks = "no secondary has room"
    return replace(place, lacks=lacks)


def with_broken_rules(place: ExplainedPlace, state: State, asked: RequestedInstance) -> ExplainedPlace:
    """Add the rules of tags to a place that they refuse."""
    secondary = None if place.snode == NOWHERE else place.snode
    broken = ", ".join(placement_rules.broken_by(state, asked, place.pnode, secondary))
    return replace(place, lacks=broken or "no secondary is allowed by its tags")


def commonest(codes: Codes) -> str:
    return FAIL[int(np.bincount(codes).argmax())].value


def scored(
    base: Statistics, touched: Iterable[NodeChange], exclusion: Any, shape: tuple[int, ...]
) -> tuple[Floats, list[Floats]]:
    """Compute scores, and their components (unweighted), of candidates that touch some nodes in ``base``.

    ``exclusion`` is the change of the location exclusion score. A component that is no number in ``base``
    stays so.
    """
    after = updated(base, touched, exclusion)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        spreads = zip(after.variances, base.variances, strict=True)
        after = replace(after, variances=tuple(old if np.isnan(old) else new for new, old in spreads))
        parts = [np.broadcast_to(part, shape) for part in after.components()]
        return np.broadcast_to(after.score(), shape), parts
