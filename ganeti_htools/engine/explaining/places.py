"""Places of an instance: why each must not be, or what it would do to the score."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.allocation import shortage
from ganeti_htools.engine.explaining.components import scored
from ganeti_htools.engine.redundancy.global_n1 import Check
from ganeti_htools.engine.rules import instance_policy
from ganeti_htools.engine.rules.node_rules import FAIL, FITS, Codes
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail


@dataclass(frozen=True, slots=True)
class ExplainedPlace:
    """A primary and a secondary: rows, NOWHERE for none.

    Either ``why`` says why it does not do, or there is the score with its components (unweighted). Where lost
    allocations decide there are these instead: later instances ``lost`` for each interval of the instance
    policy, largest disks first, and ``disk`` left (MiB). ``lacks`` says what it lacks of
    storage units or custom resource classes, where that is why.
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
        """What is lowest for the best place."""
        return self.score, self.lost, self.disk


def places(trial: Trial, redundant: Bools, base: Statistics) -> Iterator[ExplainedPlace]:
    """The place that each candidate of a trial is, with what it does to the statistics ``base``."""
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


def redundant(trial: Trial, asked: RequestedInstance, redundancy: Check | None) -> Bools:
    """Which candidates of a trial leave the cluster redundant: all of one node, or pairs with one primary.

    The algorithms stop at the best that does; here the others are looked at too.
    """
    if redundancy is None:
        return np.ones(trial.codes.shape, np.bool_)
    good: Bools
    if asked.mirrored:
        good = redundancy.admits(asked, trial.pnode[:1], trial.snode)[0]
    else:
        good = redundancy.admits(asked, trial.pnode, None)
    suspects: list[int] = []
    for i in np.flatnonzero(good & (trial.codes == FITS)).tolist():
        good[i] = redundancy.confirms(trial.only(i), suspects)
    return good


def with_lacks(
    place: ExplainedPlace, state: State, asked: RequestedInstance, node: int, source: int = NOWHERE
) -> ExplainedPlace:
    """A place with what its node (row) lacks of storage units or custom classes, if it is refused for these.

    ``source`` is the node (row) from which they would be copied to a new secondary.
    """
    if place.why == Fail.RESOURCE.value:
        as_secondary = node == place.snode
        return replace(place, lacks=shortage.lacking(state, asked, node, as_secondary, Fail.RESOURCE))
    if place.why != Fail.DISK.value or not state.columns.shape.binds:
        return place
    if instance_policy.codes(state, asked, np.array([node]))[0] != FITS:
        return place
    lacks = shortage.lacking(state, asked, node, secondary=node == place.snode)
    if not lacks and source != NOWHERE:
        lacks = shortage.no_source(state, asked, source)
        lacks = f"{state.cluster.nodes[source].name} {lacks}" if lacks and source != node else lacks
    if not lacks and asked.mirrored and place.snode == NOWHERE:
        lacks = "no secondary has room"
    return replace(place, lacks=lacks)


def commonest(codes: Codes) -> str:
    """The reason that occurs most often."""
    return FAIL[int(np.bincount(codes).argmax())].value
