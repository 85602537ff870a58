"""Exchanges of instances, at random, rated at once by the parts of the score that are sums over instances.

An exchange changes the nodes of one instance, or two instances exchange their primaries or their secondaries.
:mod:`.linear_score` has what an instance adds to its nodes. Beside that counts the memory that nodes keep
free. What the rating leaves out (N+1, tags) and whether there is room is for the rules to find.
"""

from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.linear_score import PRIMARY, SECONDARY, LinearScore
from ganeti_htools.engine.rules.components import COMPONENTS, SPREAD
from ganeti_htools.model.columns import NOWHERE, Floats, Ints

# What changes, and how often that is proposed: most often what many single moves do not find.
_SECONDARIES, _PRIMARIES, _NEW_SECONDARY, _NEW_PRIMARY, _ROLES = range(5)
_KINDS = np.repeat(np.arange(5), (3, 2, 1, 1, 1))
# The weight of the spread of memory that nodes keep free.
_EVEN = sum(each.weight for each in COMPONENTS if each.aggregate is SPREAD and each.figures == ("r_mem",))


class ProposedExchanges(NamedTuple):
    """Exchanges: two instances each, which may be the same, and their new places (positions)."""

    instances: Ints  # 2 by exchanges
    pnode: Ints  # likewise
    snode: Ints


class ExchangeRating:
    """The rating of exchanges. Instances and nodes are positions in the linear score.

    ``t_mem`` is the memory of the nodes, ``targets`` are those that may be new to instances.
    """

    def __init__(self, score: LinearScore, t_mem: Floats, targets: Ints) -> None:
        self.score, self.t_mem, self.targets = score, t_mem, targets
        self.usable = np.zeros(len(t_mem) + 1, np.bool_)  # the last entry stands for NOWHERE
        self.usable[targets] = True
        self.weights = np.array([spread.weight for spread in score.spreads])
        self.counted = np.array([spread.counted for spread in score.spreads]).T
        self.number = np.maximum(self.counted.sum(axis=0), 1)
        # Effects by instances, nodes and spreads, in both roles.
        self.effects = np.array([spread.effects for spread in score.spreads]).transpose(1, 2, 3, 0).copy()
        self.base = np.array([spread.values for spread in score.spreads]).T.copy()

    def at(self, pnode: Ints, snode: Ints) -> None:
        """Take over the present places of the instances (positions)."""
        self.pnode, self.snode = pnode, snode
        everyone, mirrored = np.arange(len(pnode)), np.flatnonzero(snode != NOWHERE)
        self.values, self.kept = self.base.copy(), self.score.kept.copy()
        np.add.at(self.values, pnode, self.effects[PRIMARY, everyone, pnode])
        np.add.at(self.values, snode[mirrored], self.effects[SECONDARY, mirrored, snode[mirrored]])
        np.add.at(self.kept, (pnode[mirrored], snode[mirrored]), self.score.memory[mirrored])
        self.now = float(self._scores(self.values[np.newaxis], self.kept.max(axis=0)[np.newaxis])[0])

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

    def changes(self, found: ProposedExchanges) -> Floats:
        """Compute the changes of the score."""
        everyone = np.arange(found.instances.shape[1])
        values = np.repeat(self.values[np.newaxis], len(everyone), axis=0)
        moved = list[tuple[Ints, Ints, Floats]]()
        for which, index in enumerate(found.instances):
            counts = np.ones(len(index)) if not which else (index != found.instances[0]).astype(np.float64)
            before, after = (self.pnode[index], self.snode[index]), (found.pnode[which], found.snode[which])
            for sign, (p, s) in ((-counts, before), (counts, after)):
                mirrored = sign * (s != NOWHERE)
                values[everyone, p] += sign[:, np.newaxis] * self.effects[PRIMARY, index, p]
                values[everyone, s] += mirrored[:, np.newaxis] * self.effects[SECONDARY, index, s]
                moved.append((p, s, mirrored * self.score.memory[index]))
        largest = np.repeat(self.kept.max(axis=0)[np.newaxis], len(everyone), axis=0)
        for _, node, _ in moved:
            kept = self.kept.T[node]
            for p, s, memory in moved:
                kept[everyone, p] += memory * (s == node)
            some = np.flatnonzero(node != NOWHERE)
            largest[some, node[some]] = kept[some].max(axis=1, initial=0.0)
        changes: Floats = self._scores(values, largest) - self.now
        return changes

    def _scores(self, values: Floats, largest: Floats) -> Floats:
        """Compute scores of values (by nodes and spreads) and of the memory kept free (by nodes)."""
        values = values * self.counted
        means = values.sum(axis=1) / self.number
        variances = (values * values).sum(axis=1) / self.number - means * means
        scores = np.sqrt(np.maximum(variances, 0.0)) @ self.weights
        shares = largest[:, self.targets] / self.t_mem[self.targets]
        result: Floats = scores + largest @ self.score.per_mib + _EVEN * shares.std(axis=1)
        return result
