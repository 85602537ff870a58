"""A tabu search (Glover 1989) of places that lower the score plus a price.

Each step makes the best move, even if that loses. Instances that have just moved stay, so the next steps
answer the move instead of taking it back. An exchange of instances consists of such a move and its answer. A
step looks at all places of the instances on the nodes of the last move, and of a few others.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ganeti_htools.engine.balancing.place_moves import PlaceMove, PlaceMoves

# Steps for which a moved instance stays, at least; a varying number breaks cycles.
STAY, VARIATION = 8, 5


class TabuSearch:
    """The search. It changes the state of the visits."""

    def __init__(self, moves: PlaceMoves, seed: int = 0) -> None:
        self.moves, self.visits, self.movable = moves, moves.visits, moves.movable
        size, nodes = moves.size
        self.until, self.stay = np.zeros(size, np.int64), min(STAY, len(self.movable) // 3)
        self.near = np.zeros(nodes + 1, np.bool_)  # nodes of the last moves
        self.random = np.random.RandomState(seed)  # its numbers are the same in all versions
        self.clock = 0

    def step(self, price: float) -> None:
        """Make the best move of an instance that need not stay, and others that gain on other nodes."""
        visits = self.visits
        free = self.movable[self.until[self.movable] <= self.clock]
        rows = (free[self.moves.on(free, self.near)], free)
        chosen = [
            self.random.permutation(some)[:most] for some, most in zip(rows, self.moves.number, strict=True)
        ]
        moves = self.moves.best(np.unique(np.concatenate(chosen)), price)
        self.clock += 1
        visits.idle += 1
        gaining = [move for move in moves if move.value < visits.score]
        self.near[:] = False
        made = list(self._apart(gaining or moves[:1]))
        if made:
            self.until[[move.instance for move in made]] = self.clock + self.stay + self.clock % VARIATION
            self.moves.make(made)

    def _apart(self, moves: Sequence[PlaceMove]) -> Iterator[PlaceMove]:
        """Yield moves in order, a few, each on nodes that no other touches, and note the nodes."""
        number = 0
        for move in moves:
            nodes = list(move.nodes)
            if number < self.visits.at_once and not self.near[nodes].any():
                self.near[nodes] = True
                number += 1
                yield move
