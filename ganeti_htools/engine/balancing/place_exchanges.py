"""Exchanges of instances of a cluster, for annealing (:mod:`.place_plans`), with their prices.

They are made on paper (:mod:`.exchanges`), a hundred times faster than by the rules. At the end of a round
instances go where these exchanges have led, as far as the rules let them. If the rules agree with the score
on paper, the places on the way count as visited.
"""

from collections.abc import Sequence
from operator import add

import numpy as np

from ganeti_htools.engine.balancing.exchanges import ExchangeRating, ProposedExchanges, Room, Tags
from ganeti_htools.engine.balancing.linear_score import linear_score
from ganeti_htools.engine.balancing.place_scores import place_scores
from ganeti_htools.engine.balancing.visits import Visit, Visits, beaten, unbeaten
from ganeti_htools.engine.balancing.way_costs import Costs
from ganeti_htools.engine.rules.batches import Batch
from ganeti_htools.model.columns import NOWHERE, Floats, Ints, by_unit

# The usual loss: this quantile of the losses, and a part of it.
USUAL, PART = 0.1, 0.3
DIGITS = 9  # of changes and scores: machines differ in the last ones
AGREES = 1e-6  # the score on paper with that by the rules
ROUND = 128  # ratings in a round


class PlaceExchanges:
    """The exchanges from the present places of a search. Without a linear score there are none."""

    def __init__(self, visits: Visits, batches: Sequence[Batch]) -> None:
        self.visits, self.state, state = visits, visits.state, visits.state
        self.member = {
            row: (batch, member) for batch in batches for member, row in enumerate(batch.rows.tolist())
        }
        movable = np.zeros(len(state.pnode), np.bool_)
        movable[list(self.member)] = True
        self.ratings = 0
        if score := linear_score(state, visits.space.scope, movable, unmirrored=True):
            self.ratings = ROUND
            self.rows = score.rows
            self.nodes = np.append(score.nodes, NOWHERE)  # the last entry stands for NOWHERE
            self.position = np.full(len(state.group) + 1, NOWHERE)
            self.position[score.nodes] = np.arange(len(score.nodes))
            memory, targets = state.columns.t_mem[score.nodes], self.position[visits.space.targets]
            self.rating = ExchangeRating(score, memory, targets, self._room(score.nodes), self._tags(batches))

    def _room(self, nodes: Ints) -> Room:
        state, rows = self.state, self.rows
        columns = state.columns.take(nodes)
        disks = zip(by_unit(columns, "f_dsk"), by_unit(columns, "lo_dsk"), strict=True)
        # Some memory must be left, none of the disk.
        free = np.stack([columns.unallocated - 1, *(free - least for free, least in disks)], axis=1)
        memory, disk = state.record_mem[rows][:, np.newaxis], state.disk[rows]
        mirrored = (state.snode[rows] != NOWHERE)[:, np.newaxis]
        taken = np.stack([np.hstack([memory, disk]), np.hstack([0 * memory, disk * mirrored])])
        for role, own in enumerate((state.pnode, state.snode)):
            np.add.at(free, self.position[own[rows]], taken[role])
        return Room(free.astype(np.float64), taken.astype(np.float64))

    def _tags(self, batches: Sequence[Batch]) -> Tags:
        sets = np.zeros(len(self.state.pnode), np.int64)
        for batch in batches:
            sets[batch.rows] = batch.tags
        state, nodes = self.state, self.nodes[:-1]
        locations = np.zeros((len(self.nodes), state.location_tags.shape[1]), np.bool_)
        locations[:-1] = state.location_tags[nodes] & ~state.columns.offline[nodes, np.newaxis]
        return Tags(sets[self.rows], self.visits.space.facts.tag_sets, state.tag_counts[:, nodes], locations)

    def begin(self) -> None:
        """Begin a round at the present places."""
        pnode, snode = self.state.pnode[self.rows], self.state.snode[self.rows]
        self.rating.at(self.position[pnode], self.position[snode])
        self.rest, self.noted = self.visits.score - self.rating.total, list[Visit]()

    def make(self, found: ProposedExchanges, which: int) -> None:
        """Make an exchange on paper, and note the places if none beats them."""
        self.rating.make(found, which)
        pnode, snode = self.nodes[self.rating.pnode], self.nodes[self.rating.snode]
        figures = self.visits.homes.costs(self.rows, pnode, snode)
        costs = Costs(*(float(figure.sum()) for figure in figures))
        score = round(self.rating.total + self.rest, DIGITS)
        if not beaten(score, costs, [*self.noted, *self.visits.best]):
            visit = Visit(score, costs, self.state.pnode.copy(), self.state.snode.copy())
            visit.pnode[self.rows], visit.snode[self.rows] = pnode, snode
            self.noted = unbeaten([*self.noted, visit])

    def propose(self, random: np.random.RandomState, number: int, price: float) -> "PricedExchanges":
        """Propose up to so many exchanges."""
        found = self.rating.propose(random, number)
        return PricedExchanges(self, found, self._prices(found, price))

    def _prices(self, found: ProposedExchanges, price: float) -> Floats:
        """Compute the prices of exchanges; infinite beyond the limits."""
        rating, homes, rows = self.rating, self.visits.homes, self.rows[found.instances]
        counts = np.stack([np.ones(rows.shape[1], np.bool_), rows[0] != rows[1]])
        was = self.nodes[rating.pnode[found.instances]], self.nodes[rating.snode[found.instances]]
        way = rows, was, (self.nodes[found.pnode], self.nodes[found.snode])
        prices: Floats = price * homes.added_charge(*way).sum(axis=0, where=counts)
        if self.visits.limited:
            present = homes.costs(self.rows, self.nodes[rating.pnode], self.nodes[rating.snode])
            changes = zip(present, homes.change(*way), strict=True)
            then = (figures.sum() + change.sum(axis=0, where=counts) for figures, change in changes)
            prices = np.where(Costs(*then).within(self.visits.limits), prices, np.inf)
        return prices

    def end(self) -> None:
        """Lead instances to the places at the end of a round; those that the rules or limits refuse stay."""
        rows, state, self.total = self.rows, self.state, self.visits.total
        pnode, snode = self.nodes[self.rating.pnode], self.nodes[self.rating.snode]
        new = (pnode != state.pnode[rows]) | (snode != state.snode[rows])
        goals = np.stack([rows, pnode, snode], axis=1)[new].tolist()
        while waiting := [goal for goal in goals if not self.lead(*goal)]:
            if len(waiting) == len(goals):
                break
            goals = waiting
        self.visits.settle()
        if abs(self.visits.score - self.rating.total - self.rest) < AGREES:
            self.visits.take(self.noted)
        self.visits.keep()

    def lead(self, row: int, *goal: int) -> bool:
        """Move an instance to a place if it can go there within the limits."""
        state, (batch, member) = self.state, self.member[row]
        was = state.pnode[row], state.snode[row]
        total = Costs(*map(add, self.total, self.visits.homes.change(row, was, goal)))
        if not total.within(self.visits.limits):
            return False
        targets = np.array([node for node in goal if node != NOWHERE])
        space = self.visits.space._replace(targets=targets)
        block = place_scores(space, self.visits.baseline, batch.take(np.array([member])))
        place = 0, len(targets) - 1
        fits = bool(block.scores[0, *place] < np.inf)
        if fits:
            self.visits.place(block.trial(0, *place))
            self.total = total
        return fits


class PricedExchanges:
    """Proposed exchanges with their ``changes`` of the score plus price."""

    def __init__(self, places: PlaceExchanges, found: ProposedExchanges, prices: Floats) -> None:
        self.places, self.found = places, found
        self.changes = (places.rating.changes(found) + prices).round(DIGITS)
        self.touched = places.rating.nodes(found).tolist()

    @property
    def usual(self) -> float:
        """The usual loss: small, but not of the smallest ones."""
        losses = self.changes[(self.changes > 0) & (self.changes < np.inf)]
        return PART * float(np.quantile(losses, USUAL)) if len(losses) else 0.0

    def nodes(self, which: int) -> set[int]:
        """Return the nodes that an exchange touches, as positions."""
        return set(self.touched[which]) - {NOWHERE}

    def make(self, which: int) -> None:
        """Make an exchange, on paper."""
        self.places.make(self.found, which)
