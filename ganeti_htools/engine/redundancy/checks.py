"""Checks of redundancy that a search for a place asks; :class:`.Assessment` is the usual one."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ganeti_htools.engine.redundancy.assessment import Assessment, assess
from ganeti_htools.engine.redundancy.recoverability import unrecoverable
from ganeti_htools.engine.redundancy.rule import can_be_lost
from ganeti_htools.engine.redundancy.simulate import NewInstances
from ganeti_htools.engine.rules import placements, settling
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State


class Check(Protocol):
    """The questions of a search for a place about redundancy; candidates are rows of nodes."""

    def admissible(self, asked: RequestedInstance, primaries: Ints, secondaries: Ints | None) -> Bools:
        """For each primary (and secondary), False where the state would certainly not be redundant."""

    def fatal_loss(self, asked: RequestedInstance, primary: int, secondary: int = NOWHERE) -> int:
        """A node that cannot be lost with the instance on admissible nodes; NOWHERE if every node can."""

    def fatal_alone(self, node: int) -> bool:
        """Whether the loss of a node is fatal even with nothing placed."""
        return False

    def refuted(self, new: NewInstances) -> Bools:
        """For each new instance by itself, True where a loss that was fatal before is found fatal with it."""
        return np.zeros(len(new.which), np.bool_)


@dataclass(frozen=True, slots=True)
class SecondaryCheck(Check):
    """Redundancy where an instance only gets a secondary: it counts as the unmirrored one that it still is.

    ``before`` is of the state in which the instance has no secondary, ``bare`` the state without it.
    """

    before: Assessment
    bare: State

    def admissible(self, asked: RequestedInstance, primaries: Ints, secondaries: Ints | None) -> Bools:
        """As :class:`Check` says."""
        assert secondaries is not None
        return np.full((len(primaries), len(secondaries)), not self.before.bounds.some_fatal)

    def fatal_loss(self, asked: RequestedInstance, primary: int, secondary: int = NOWHERE) -> int:
        """As :class:`Check` says: nodes have the figures they get, the instance is what it was."""
        pair, bare = (np.array([primary]), np.array([secondary])), self.bare.without_load()
        trial = placements.allocate_pairs(bare, asked, *pair, bare.peers[pair], force=True)
        state, cache = self.before.state.copy(), self.before.cache
        for change in trial.changes:
            state.columns.put(int(change.rows[0]), change.new)
        settling.reserve(state, asked, primary, secondary)
        nodes = self.before.bounds.unproved(replace(asked, record_mem=0), primary).tolist()
        for node in cache.suspects_first(nodes):
            if not can_be_lost(state, node, self.before.bounds.scope):
                cache.suspect(node)
                return node
        return NOWHERE

    def fatal_alone(self, node: int) -> bool:
        """As :class:`Check` says."""
        return self.before.fatal_alone(node)


@dataclass(frozen=True, slots=True)
class NoLossCheck(Check):
    """Redundancy where instances cannot come back already: a placement must not add any.

    ``lost`` marks the instances that are :func:`.unrecoverable` ``before``, among all nodes of one group. The
    new instance ``may_be_lost`` itself if it comes from where it is unrecoverable.
    """

    before: Assessment
    lost: Bools
    may_be_lost: bool = False

    def admissible(self, asked: RequestedInstance, primaries: Ints, secondaries: Ints | None) -> Bools:
        """As :class:`Check` says: nothing is ruled out."""
        return np.ones(
            (len(primaries),) if secondaries is None else (len(primaries), len(secondaries)), np.bool_
        )

    def fatal_loss(self, asked: RequestedInstance, primary: int, secondary: int = NOWHERE) -> int:
        """As :class:`Check` says, of instances that could come back before."""
        placed = self.before.placed(asked, primary, secondary)
        after = assess(placed, self.before.bounds.scope, PlacementOptions(), cache=self.before.cache)
        added = unrecoverable(placed, placed.everywhere, after)
        added[: len(self.lost)] &= ~self.lost
        added[len(self.lost) :] &= not self.may_be_lost
        return int(placed.pnode[added.argmax()]) if added.any() else NOWHERE
