"""What fails over of a custom resource class, in sums: secondaries of a lost node have to have it free."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ganeti_htools.engine.redundancy.displaced import Displaced
from ganeti_htools.engine.rules.class_limits import refused
from ganeti_htools.model.columns import Bools, Columns, Ints, of_class
from ganeti_htools.model.state import RequestedInstance, State


@dataclass(frozen=True, slots=True)
class ClassLoad:
    """Of a class (by position): ``load[p, s]`` is what instances of ``p`` need on ``s`` if ``p`` is lost."""

    which: int
    load: Ints

    def missing(self, columns: Columns, lost: Ints, partners: Ints) -> Ints:
        """How much less partners have than would fail over to them; 0 or less where that is enough."""
        needed = self.load[lost, partners]
        return np.where(needed > 0, needed - self._free(columns)[partners], 0)

    def barred(self, state: State, mirrored: Ints) -> Bools:
        """Which mirrored instances (rows) demand what one of their nodes does not give to one instance."""
        amounts, columns = state.classes[mirrored, self.which], state.columns
        lost, partners = state.pnode[mirrored], state.snode[mirrored]
        here = refused(columns.take(lost), self.which, amounts) & ~columns.offline[lost]
        there = refused(columns.take(partners), self.which, amounts)
        return np.asarray((amounts > 0) & (here | there))

    def bears(self, columns: Columns, asked: RequestedInstance, looked: Bools) -> Bools:
        """Which nodes have enough for what fails over to them with a new instance as primary."""
        expected = self.load[looked].max(axis=0, initial=0)
        return np.asarray((expected == 0) | (self._free(columns) - self._taken(asked) >= expected))

    def takes_over(
        self, columns: Columns, asked: RequestedInstance, primaries: Any, secondaries: Any
    ) -> Bools:
        """Whether a new instance can fail over with the others (rows of nodes that broadcast)."""
        left = self._free(columns)[secondaries] - self.load[primaries, secondaries]
        taken = self._taken(asked)
        return np.asarray((left >= taken) | (taken == 0))

    def left(
        self,
        columns: Columns,
        displaced: Displaced,
        lost: Ints,
        targets: Ints,
        asked: RequestedInstance | None,
        primary: int,
    ) -> Ints:
        """What targets have left for instances that each lost node displaces, as :class:`.room.Free` has it.

        Its mirrored instances have failed over, of which a new one may be anywhere. Targets that do not give
        to one instance what any of these demands have nothing.
        """
        free, moved = self._free(columns).copy(), 0
        if asked is not None:
            free[primary] -= self._taken(asked)
            moved = self._taken(asked) if asked.mirrored else 0
        found = free[targets] - self.load[lost, targets] - moved * (lost == primary)
        least, most, step = (
            getattr(columns, of_class(figure, self.which))[targets] for figure in ("least", "most", "step")
        )
        gives = (least == 1) & (step == 1) & (most >= displaced.classes[self.which].largest[lost])
        return np.where(gives, found + 1, 0)

    def _free(self, columns: Columns) -> Ints:
        free: Ints = getattr(columns, of_class("f", self.which))
        return free

    def _taken(self, asked: RequestedInstance) -> int:
        return 0 if asked.forthcoming else int(asked.classes[self.which])


def class_loads(state: State, mirrored: Ints) -> tuple[ClassLoad, ...]:
    """What mirrored instances (rows) need of each class where they fail over."""
    size, found = len(state.group), []
    for which, amounts in enumerate(state.classes[mirrored].T):
        load = np.zeros((size, size), np.int64)
        np.add.at(load, (state.pnode[mirrored], state.snode[mirrored]), amounts)
        found.append(ClassLoad(which, load))
    return tuple(found)
