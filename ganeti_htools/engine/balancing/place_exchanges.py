"""Exchanges of instances of a cluster, for annealing (:mod:`.place_plans`), with their prices.

An exchange changes the nodes of one instance, or two instances exchange their primaries or their secondaries.
They are made on paper, a hundred times faster than by the rules. At the end of a round instances go where
these exchanges have led, as far as the rules let them. If the rules agree with the score on paper, the places
on the way count as visited.
"""

from collections.abc import Sequence
from operator import add
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.linear_score import PRIMARY, SECONDARY, LinearScore, linear_score
from ganeti_htools.engine.balancing.place_scores import place_scores
from ganeti_htools.engine.balancing.visits import Visit, Visits, beaten, unbeaten
from ganeti_htools.engine.balancing.way_costs import Costs
from ganeti_htools.engine.rules.affinity import TagSets
from ganeti_htools.engine.rules.batches import Batch
from ganeti_htools.engine.rules.components import COMPONENTS, INDEX, LOCATION_EXCLUSION, SPREAD, WEIGHTS
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints, by_unit

# What changes, and how often that is proposed: most often what many single moves do not find.
_SECONDARIES, _PRIMARIES, _NEW_SECONDARY, _NEW_PRIMARY, _ROLES = range(5)
_KINDS = np.repeat(np.arange(5), (3, 2, 1, 1, 1))
# The weight of the spread of memory that nodes keep free.
_EVEN = sum(each.weight for each in COMPONENTS if each.aggregate is SPREAD and each.figures == ("r_mem",))
# The scores of a conflict of exclusion tags on a node, and at a location.
PER_CONFLICT, PER_CROWD = WEIGHTS[INDEX["pri_tags_score"]], WEIGHTS[LOCATION_EXCLUSION]
# Roles and signs of an instance's old nodes, then of its new ones; the same for a second instance.
_ROLE = np.array([PRIMARY, SECONDARY] * 4)
_SIGN = np.array([-1.0, -1.0, 1.0, 1.0] * 2)
_EARLIER = np.tri(5, k=-1, dtype=np.bool_)


class ProposedExchanges(NamedTuple):
    """Exchanges: two instances each, which may be the same, and their new places (positions)."""

    instances: Ints  # 2 by exchanges
    pnode: Ints  # likewise
    snode: Ints


class Room(NamedTuple):
    """Amounts that are free on nodes, and amounts of instances: memory, then the disk of each storage unit.

    ``free`` (nodes by amounts) is without the instances. ``taken`` is by roles, instances and amounts.
    """

    free: Floats
    taken: Floats


class Tags(NamedTuple):
    """Exclusion tags: the set of each instance, the tags of the sets, and primaries with tags (by nodes).

    ``locations`` marks the location tags that count at nodes (nodes by tags, the last row for NOWHERE).
    """

    sets: Ints
    of_sets: TagSets
    counts: Ints
    locations: Bools


class ExchangeRating:
    """The rating of exchanges from present places, by the parts of the score that are sums over instances.

    :mod:`.linear_score` has what an instance adds to its nodes. Beside that count the memory that nodes keep
    free, and exclusion tags on nodes and at locations. Exchanges without room for memory, what is kept free
    of it, and disks get no rating. What is left out (other tags and limits) is for the rules to find.

    Instances and nodes are positions in the linear score.
    ``t_mem`` is the memory of the nodes, ``targets`` are those that may be new to instances. The last entry
    of arrays by nodes stands for NOWHERE.
    """

    def __init__(self, score: LinearScore, t_mem: Floats, targets: Ints, room: Room, tags: Tags) -> None:
        self.score, self.targets, self.tags, nodes = score, targets, tags, len(t_mem)
        self.usable = np.zeros(nodes + 1, np.bool_)
        self.usable[targets] = True
        self.t_mem = np.where(self.usable, np.append(t_mem, 1.0), np.inf)
        self.per_mib = np.append(score.per_mib, 0.0)
        self.memory = np.where(score.snode == NOWHERE, 0.0, score.memory)
        self.weights = np.array([spread.weight for spread in score.spreads])
        self.number = np.array([max(int(spread.counted.sum()), 1) for spread in score.spreads])
        self.spreads = len(self.weights)
        # Effects by roles, instances, nodes and figures: those of the spreads, then the amounts.
        self.effects = np.zeros((2, len(score.rows), nodes + 1, self.spreads + room.free.shape[1]))
        self.base = np.zeros((nodes + 1, self.effects.shape[3]))
        for which, spread in enumerate(score.spreads):
            self.effects[:, :, :nodes, which], self.base[:nodes, which] = spread.effects, spread.values
        self.effects[:, :, :nodes, self.spreads :] = -room.taken[:, :, np.newaxis]
        self.base[:nodes, self.spreads :] = room.free
        self.rest = np.zeros((2, len(score.rows), nodes + 1))
        self.rest[:, :, :nodes] = score.rest_effects
        self.together = np.zeros((nodes + 1, nodes + 1))
        self.together[:nodes, :nodes] = score.together

    def at(self, pnode: Ints, snode: Ints) -> None:
        """Take over the present places of the instances (positions)."""
        self.pnode, self.snode = pnode.copy(), snode.copy()
        everyone, nodes = np.arange(len(pnode)), len(self.base) - 1
        self.values, self.kept = self.base.copy(), np.zeros((nodes + 1, nodes + 1))
        np.add.at(self.values, pnode, self.effects[PRIMARY, everyone, pnode])
        np.add.at(self.values, snode, self.effects[SECONDARY, everyone, snode])
        self.kept[:nodes, :nodes] = self.score.kept.T
        np.add.at(self.kept, (snode, pnode), self.memory)
        self.counts = self.tags.counts.copy()
        for index in np.flatnonzero(pnode != self.score.pnode).tolist():
            self._tag(index, int(self.score.pnode[index]), -1)
            self._tag(index, int(pnode[index]), 1)
        at = self.rest[PRIMARY, everyone, pnode], self.rest[SECONDARY, everyone, snode]
        self.alone = float(sum(map(np.sum, at)) + self.together[pnode, snode].sum())
        self._count()

    def make(self, found: ProposedExchanges, which: int) -> None:
        places = zip(*(each[:, which].tolist() for each in found), strict=True)
        for index, *place in dict.fromkeys(places):
            self._put(index, -1)
            self.pnode[index], self.snode[index] = place
            self._put(index, 1)
        self._count()

    def _put(self, index: int, sign: int) -> None:
        """Put an instance on its nodes (1), or take it off them (-1)."""
        p, s = int(self.pnode[index]), int(self.snode[index])
        self.values[p] += sign * self.effects[PRIMARY, index, p]
        self.values[s] += sign * self.effects[SECONDARY, index, s]
        self.kept[s, p] += sign * self.memory[index]
        rest = self.rest[PRIMARY, index, p] + self.rest[SECONDARY, index, s] + self.together[p, s]
        self.alone += sign * float(rest)
        self._tag(index, p, sign)

    def _tag(self, index: int, node: int, change: int) -> None:
        self.counts[self.tags.of_sets.members(int(self.tags.sets[index])), node] += change

    def _count(self) -> None:
        """Count what the places of all instances lead to."""
        values = self.values[:, : self.spreads]
        self.sums, self.squares = values.sum(axis=0), (values * values).sum(axis=0)
        self.largest = self.kept.max(axis=1)
        self.present, self.others = (self.tags.of_sets.counts(self.counts, most) for most in (0, 1))
        crowds = self.counts @ self.tags.locations[:-1]
        self.crowded, self.shared = (self.tags.of_sets.counts(crowds, most) for most in (0, 1))
        shares = self.largest / self.t_mem
        self.shares = np.array([shares.sum(), (shares * shares).sum()])
        self.now = float(self._scores(self.sums, self.squares, self.shares))
        conflicts = np.maximum(self.counts - 1, 0).sum(axis=0) @ self.usable[:-1]
        exclusion = PER_CONFLICT * conflicts + PER_CROWD * np.maximum(crowds - 1, 0).sum()
        self.total = self.now + float(exclusion + self.largest @ self.per_mib) + self.alone

    def propose(self, random: np.random.RandomState, number: int) -> ProposedExchanges:
        """Propose exchanges at random: so many, without those that change nothing or cannot be."""
        one, two = random.randint(len(self.pnode), size=(2, number))
        node = self.targets[random.randint(len(self.targets), size=number)]
        kind = _KINDS[random.randint(len(_KINDS), size=number)]
        p, s, other_p, other_s = self.pnode[one], self.snode[one], self.pnode[two], self.snode[two]
        pnode = np.choose(kind, (p, other_p, p, node, s))
        snode = np.choose(kind, (other_s, s, node, s, p))
        alone = (kind != _SECONDARIES) & (kind != _PRIMARIES)
        two = np.where(alone, one, two)
        places = (
            np.stack([pnode, np.where(alone, pnode, np.where(kind == _PRIMARIES, p, other_p))]),
            np.stack([snode, np.where(alone, snode, np.where(kind == _SECONDARIES, s, other_s))]),
        )
        good = ((pnode != p) | (snode != s)) & ((s == NOWHERE) == (snode == NOWHERE))
        good &= (self.snode[two] == NOWHERE) == (places[1][1] == NOWHERE)
        good &= ((places[0] != places[1]) & self.usable[places[0]]).all(axis=0)
        good &= ((places[1] == NOWHERE) | self.usable[places[1]]).all(axis=0)
        return ProposedExchanges(*(pair[:, good] for pair in (np.stack([one, two]), *places)))

    def nodes(self, found: ProposedExchanges) -> Ints:
        """Return all nodes of exchanges (exchanges by 5); some are there twice, or NOWHERE."""
        (one, two), came = found.instances, found.pnode[0]
        p, s = self.pnode[one], self.snode[one]
        new = np.where((came != p) & (came != s), came, found.snode[0])
        return np.stack([p, s, self.pnode[two], self.snode[two], new], axis=1)

    def changes(self, found: ProposedExchanges) -> Floats:
        """Compute the changes of the score, infinite without room."""
        (one, two), nodes = found.instances, self.nodes(found)
        instances = np.stack([one, one, one, one, two, two, two, two], axis=1)
        (p, other_p), (s, other_s) = found.pnode, found.snode
        places = np.stack([*nodes.T[:2], p, s, *nodes.T[2:4], other_p, other_s], axis=1)
        signs = np.where(np.arange(8) < 4, _SIGN, _SIGN * (one != two)[:, np.newaxis])
        first = ~((nodes[:, :, np.newaxis] == nodes[:, np.newaxis]) & _EARLIER).any(axis=2)
        where = _ROLE, instances, places
        alike = (nodes[:, :, np.newaxis] == places[:, np.newaxis]).astype(np.float64)
        added = alike @ (self.effects[where] * signs[:, :, np.newaxis])
        before = self.values[nodes]
        counted = added[:, :, : self.spreads] * first[:, :, np.newaxis]
        sums = self.sums + counted.sum(axis=1)
        squares = (counted * (2 * before + added)[:, :, : self.spreads]).sum(axis=1) + self.squares
        kept, everyone = self.kept[nodes], np.arange(len(nodes))
        for at in (1, 3, 5, 7):
            memory = signs[:, at] * self.memory[instances[:, at]]
            kept[everyone, :, places[:, at - 1]] += alike[:, :, at] * memory[:, np.newaxis]
        largest, was, t_mem = kept.max(axis=2), self.largest[nodes], self.t_mem[nodes]
        share, old = largest / t_mem, was / t_mem
        more = np.stack([share - old, share * share - old * old], axis=2) * first[:, :, np.newaxis]
        result: Floats = self._scores(sums, squares, (self.shares + more.sum(axis=1)).T) - self.now
        result += ((largest - was) * self.per_mib[nodes] * first).sum(axis=1)
        result += (self.rest[where] * signs).sum(axis=1)
        result += (self.together[places[:, ::2], places[:, 1::2]] * signs[:, ::2]).sum(axis=1)
        taken, left = added[:, :, self.spreads :], (before + added)[:, :, self.spreads :]
        taken[:, :, 0] -= largest - was
        left[:, :, 0] -= largest
        fits = ((left >= 0) | (taken >= 0)).all(axis=(1, 2))
        return np.where(fits, result + self._exclusion(found), np.inf)

    def _exclusion(self, found: ProposedExchanges) -> Floats:
        """Compute what exclusion tags change; infinite if a new primary shares a tag with a present one.

        So instances with a tag do not exchange their primaries: neither could go first.
        """
        sets, was = self.tags.sets[found.instances], self.pnode[found.instances]
        two = found.instances[0] != found.instances[1]
        moved = (was != found.pnode) & np.stack([np.ones_like(two), two])
        old, new = self.tags.locations[was], self.tags.locations[found.pnode]
        shared = (self.crowded[sets] * (new & ~old) - self.shared[sets] * (old & ~new)).sum(axis=2)
        change = PER_CROWD * shared - PER_CONFLICT * self.others[sets, was] * self.usable[was]
        conflicts = self.present[sets, found.pnode] > 0
        result: Floats = np.where(conflicts, np.inf, change).sum(axis=0, where=moved)
        return result

    def _scores(self, sums: Floats, squares: Floats, shares: Floats) -> Floats:
        """Compute the parts of scores that are deviations."""
        means = sums / self.number
        result = np.sqrt(np.maximum(squares / self.number - means * means, 0.0)) @ self.weights
        mean, square = shares / len(self.targets)
        even: Floats = result + _EVEN * np.sqrt(np.maximum(square - mean * mean, 0.0))
        return even


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
