"""Scores of all places of some instances at once: each pair of a primary and a secondary.

The nodes are first judged without the instance, then with it as a primary and as a secondary, by the rules of
:mod:`ganeti_htools.engine.rules.node_rules`. The changes of a pair are the sum of these changes, since its
nodes differ.
"""

from collections.abc import Callable, Sequence
from operator import add
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.baseline import Baseline
from ganeti_htools.engine.balancing.scoring import SearchSpace, weighted_location_exclusion
from ganeti_htools.engine.balancing.visits import Visits
from ganeti_htools.engine.balancing.way_costs import Costs
from ganeti_htools.engine.rules import affinity, node_rules, placement_rules
from ganeti_htools.engine.rules.batches import Batch, NodeFacts
from ganeti_htools.engine.rules.deviation import Deviation
from ganeti_htools.engine.rules.node_rules import FITS, Codes
from ganeti_htools.engine.rules.trial import NodeChange, Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Floats, Ints


class PlaceScores(NamedTuple):
    """Places of instances: ``scores`` (instances by primaries by secondaries; infinite for impossible ones).

    Nodes are positions among the targets of the space. Instances without a mirror have one position of
    secondaries. ``own`` are the changes of the nodes that the instances leave, ``primary`` and ``secondary``
    the columns of targets that they come to.
    """

    space: SearchSpace
    batch: Batch
    scores: Floats
    own: Sequence[NodeChange]
    primary: Columns
    secondary: Columns | None

    def nodes(self, primary: int, secondary: int) -> tuple[int, int]:
        """Return the rows of the nodes at these positions (secondary: NOWHERE without a mirror)."""
        targets = self.space.targets
        return int(targets[primary]), NOWHERE if self.secondary is None else int(targets[secondary])

    def trial(self, member: int, primary: int, secondary: int) -> Trial:
        """Return the move of a member to a place, ready to be settled."""
        state = self.space.facts.state
        pnode, snode = self.nodes(primary, secondary)
        new = {pnode: self.primary}
        if self.secondary is not None:
            new[snode] = self.secondary

        def there(column: Any) -> Any:
            """Return the figure of the place from an array that broadcasts."""
            at = zip((member, primary, secondary)[-column.ndim :], column.shape, strict=True)
            return column[tuple(min(place, size - 1) for place, size in at)][np.newaxis]

        came = [(node, columns.map(there)) for node, columns in new.items()]
        left = [
            (int(change.rows[member]), change.new.map(lambda column: column[[member]])) for change in self.own
        ]
        changes = (
            NodeChange(np.array([node]), state.columns.take([node]), columns)
            for node, columns in dict(left + came).items()
        )
        asked = state.instance(int(self.batch.rows[member]))
        return Trial(asked, np.zeros(1, np.int8), np.array([pnode]), np.array([snode]), tuple(changes))


def place_scores(space: SearchSpace, baseline: Baseline, batch: Batch) -> PlaceScores:
    """Compute the scores of all places of the instances of a batch.

    What is possible is judged for the place alone: on the way there, more may be in the way. Migrations are
    not judged, as an instance does not come from its present nodes but from its home (:mod:`.way_costs`).
    """
    facts, targets = space.facts, space.targets
    state = facts.state
    p, s = state.pnode[batch.rows], state.snode[batch.rows]
    own = _leaving(facts, batch, p, s)
    position = np.full(len(state.group) + 1, NOWHERE)  # the last entry stands for NOWHERE
    position[targets] = np.arange(len(targets))
    bare = _without(state.columns, targets, own, [position[p], position[s]])
    lifted = batch.take(np.arange(len(p))[:, np.newaxis, np.newaxis])
    offline = state.columns.offline
    lost = (offline[p] | ((s != NOWHERE) & offline[s]))[:, np.newaxis, np.newaxis]
    stays = (targets == p[:, np.newaxis])[..., np.newaxis]

    def coded(rule: Callable[..., tuple[Columns, Codes]], *arguments: Any) -> tuple[Columns, Codes]:
        """Apply a rule; soft limits do not count for instances that may leave a lost node."""
        new, codes = rule(*arguments, force=space.force)
        if lost.any() and not space.force:
            codes = np.where(lost, rule(*arguments, force=True)[1], codes)
        return new, codes

    before = bare.map(lambda column: column[..., np.newaxis])
    conflicts = facts.present[batch.tags][:, targets]
    here = np.flatnonzero(position[p] >= 0)
    conflicts[here, position[p][here]] = facts.others[batch.tags[here], p[here]]
    location = facts.unmet[batch.desires][:, targets, np.newaxis]
    if batch.asked.mirrored and state.location_rows:
        location = location + affinity.shared_locations(state, targets[:, np.newaxis], targets)
    primary, codes = coded(node_rules.add_primary, before, lifted.asked, conflicts[..., np.newaxis], location)
    possible = (codes == FITS) | stays
    touched = [*own, NodeChange(targets, before, primary)]
    secondary = None
    if batch.asked.mirrored:
        before = bare.map(lambda column: column[..., np.newaxis, :])
        memory, *classes = _kept_for_others(facts, batch, targets, position[p], position[s])

        def add_secondary(columns: Columns, force: bool) -> tuple[Columns, Codes]:
            return node_rules.add_secondary(columns, lifted.asked, memory, force, peers=classes)

        secondary, codes = coded(add_secondary, before)
        possible = possible & (codes == FITS) & ~np.eye(len(targets), dtype=np.bool_)
        touched.append(NodeChange(targets, before, secondary))
    if state.rules is not None:
        rows = lifted.rows
        own_places = state.pnode[rows], state.snode[rows]
        places = targets[:, np.newaxis], targets if batch.asked.mirrored else None
        of = state.rules.instances.take(rows)
        possible = possible & placement_rules.allows(state.rules, of, *own_places, *places)
    scores = _scores(space, baseline, touched)
    exclusion = weighted_location_exclusion(space, batch)
    if exclusion is not None:
        scores = scores + exclusion[:, targets, np.newaxis]
    return PlaceScores(space, batch, np.where(possible, scores, np.inf), own, primary, secondary)


def _leaving(facts: NodeFacts, batch: Batch, p: Ints, s: Ints) -> list[NodeChange]:
    """Compute the changes of the nodes of instances when they leave both."""
    state, asked, columns = facts.state, batch.asked, facts.state.columns
    location: Any = facts.unmet[batch.desires, p]
    if state.location_rows:
        location = location + affinity.shared_locations(state, p, s) * (s != NOWHERE)
    old = columns.take(p)
    others = facts.others[batch.tags, p]
    own = [NodeChange(p, old, node_rules.remove_primary(old, asked, others, location))]
    if asked.mirrored:
        old = columns.take(s)
        kept, classes = facts.kept_without(batch, p, s)
        own.append(NodeChange(s, old, node_rules.remove_secondary(old, asked, kept, classes)))
    return own


def _without(columns: Columns, targets: Ints, own: Sequence[NodeChange], places: Sequence[Ints]) -> Columns:
    """Return the columns of targets without each of the instances (instances by targets)."""
    for change in own:
        columns = columns.apart(change.new.aliases)
    changing = set(columns.changing())
    found: list[Any] = []
    for number, (name, first) in enumerate(zip(columns._fields, columns.firsts, strict=True)):
        if first != number:
            found.append(found[first])
            continue
        wide = np.broadcast_to(targets, (len(places[0]), len(targets)))
        column = columns[number][wide] if name in changing else columns[number][targets][np.newaxis]
        if name in changing:
            for change, at in zip(own, places, strict=False):
                here = np.flatnonzero(at >= 0)
                column[here, at[here]] = change.new[number][here]
        found.append(column)
    return columns.with_columns(found)


def _kept_for_others(facts: NodeFacts, batch: Batch, targets: Ints, p: Ints, s: Ints) -> list[Ints]:
    """Compute what targets keep free for primaries, without each instance (instances by both by targets).

    That is memory (MiB), and the amount of each custom class.
    """
    state, asked, pairs = facts.state, batch.asked, np.ix_(targets, targets)
    here = np.flatnonzero((p >= 0) & (s >= 0))
    found = []
    tables = zip(
        (state.peers, *state.class_peers), (asked.secondary_mem, *asked.secondary_classes), strict=True
    )
    for peers, amount in tables:
        kept = np.repeat(peers[pairs][np.newaxis], len(p), axis=0)
        if not asked.forthcoming:
            kept[here, p[here], s[here]] -= np.broadcast_to(amount, p.shape)[here]
        found.append(kept)
    return found


def _scores(space: SearchSpace, baseline: Baseline, touched: Sequence[NodeChange]) -> Floats:
    """Compute the scores after changes: of own nodes (by instances), then of targets (by places)."""
    effects = [space.parts.effect(change) for change in touched]

    def lifted(values: Any) -> Any:
        return values[:, np.newaxis, np.newaxis] if np.ndim(values) == 1 else values

    scores: Any = baseline.rest + sum(lifted(effect.rest) for effect in effects)
    for group, weight in enumerate(baseline.weights.tolist()):
        changes = [effect.spreads[group] for effect in effects if group in effect.spreads]
        change, square = (
            (sum(map(lifted, figures)) for figures in zip(*changes, strict=True)) if changes else (0.0, 0.0)
        )
        before = Deviation(*(figures[group] for figures in baseline.deviation))
        scores = scores + weight * np.sqrt(np.maximum(before.after(change, square).variance, 0.0))
    return np.asarray(scores)


NEAR, OTHERS = 64, 16  # instances in a step: on the nodes of the last move, and others at random
PLACES = 1 << 20  # places in a step; on clusters of many nodes it looks at fewer instances


class PlaceMove(NamedTuple):
    """The best other place of a member of a block: score plus price, and the positions of its nodes."""

    value: float
    block: PlaceScores
    member: int
    primary: int
    secondary: int

    @property
    def instance(self) -> int:
        return int(self.block.batch.rows[self.member])

    @property
    def nodes(self) -> list[int]:
        """The nodes that it leaves and those that it comes to."""
        state = self.block.space.facts.state
        own = state.node_pair(self.instance)
        return [node for node in (*self.block.nodes(*self[3:]), *own) if node != NOWHERE]


class PlaceMoves:
    """The moves from the present places of a search."""

    def __init__(self, visits: Visits, batches: Sequence[Batch]) -> None:
        self.visits, self.batches, self.state = visits, batches, visits.state
        self.size, targets = (len(self.state.pnode), len(self.state.group)), visits.space.targets
        self.batch, self.member = np.full(self.size[0], NOWHERE), np.zeros(self.size[0], np.int64)
        for number, batch in enumerate(batches):
            self.batch[batch.rows], self.member[batch.rows] = number, np.arange(len(batch.rows))
        self.movable = np.flatnonzero(self.batch != NOWHERE) if len(targets) else np.zeros(0, np.int64)
        fraction = min(1.0, PLACES / (NEAR + OTHERS) / max(1, len(targets)) ** 2)
        self.number = max(1, int(fraction * NEAR)), max(1, int(fraction * OTHERS))
        self.position = np.full(self.size[1] + 1, NOWHERE)  # the last entry stands for NOWHERE
        self.position[targets] = np.arange(len(targets))

    def on(self, rows: Ints, nodes: Bools) -> Bools:
        """Mark the instances (rows) with a primary or secondary on marked nodes."""
        marked: Bools = nodes[self.state.pnode[rows]] | nodes[self.state.snode[rows]]
        return marked

    def best(self, rows: Ints, price: float) -> list[PlaceMove]:
        """Find the best place of each of some instances other than the present one; the best first."""
        found = list[PlaceMove]()
        for number in np.unique(self.batch[rows]).tolist():
            members = self.member[rows[self.batch[rows] == number]]
            block = place_scores(self.visits.space, self.visits.baseline, self.batches[number].take(members))
            values = block.scores + self._prices(block, price)
            places = values.reshape(len(values), -1)
            best = places.argmin(axis=1)
            found += [
                PlaceMove(value, block, member, *divmod(place, values.shape[2]))
                for member, (value, place) in enumerate(
                    zip(places[np.arange(len(best)), best].tolist(), best.tolist(), strict=True)
                )
                if value < np.inf
            ]
        return sorted(found, key=lambda move: move.value)

    def make(self, moves: Sequence[PlaceMove]) -> None:
        """Make moves that touch different nodes."""
        self.visits.settle(*(move.block.trial(*move[2:]) for move in moves))
        self.visits.keep()

    def _prices(self, block: PlaceScores, price: float) -> Floats:
        """Compute the prices of places of a block; infinite for present ones, and beyond the limits."""
        visits, rows = self.visits, block.batch.rows
        p, s = self.state.pnode[rows], self.state.snode[rows]
        targets, members = visits.space.targets, (slice(None), np.newaxis, np.newaxis)
        secondaries = targets if block.secondary is not None else np.array([NOWHERE])
        way = rows[members], (p[members], s[members]), (targets[:, np.newaxis], secondaries)
        prices: Floats = price * visits.homes.added_charge(*way)
        if visits.limited:
            then = map(add, visits.total, visits.homes.change(*way))
            prices = np.where(Costs(*then).within(visits.limits), prices, np.inf)
        at = self.position[p], self.position[s] if block.secondary is not None else np.zeros_like(s)
        here = np.flatnonzero((at[0] >= 0) & (at[1] >= 0))
        prices[here, at[0][here], at[1][here]] = np.inf
        return prices
