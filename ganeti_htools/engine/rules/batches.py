"""Batches of instances to be moved: columns of instances to which the same rules apply."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ganeti_htools.engine.rules import affinity
from ganeti_htools.engine.rules.affinity import TagSets
from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Load
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.figures import tabulate
from ganeti_htools.model.hour_sums import HourSums
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import DiskTemplate, MirrorType


@dataclass(frozen=True, slots=True)
class Batch:
    """Instances to which the same rules apply, as arrays over them, in row order.

    ``asked`` stands for all instances: its figures are arrays. ``tags`` and ``desires`` number the sets of
    exclusion tags and of desired locations (see :class:`NodeFacts`).
    """

    rows: Ints
    asked: RequestedInstance
    tags: Ints
    desires: Ints

    @property
    def mirror(self) -> MirrorType:
        """The way in which the disks of all instances reach another node."""
        mirror: MirrorType = self.asked.row.template.mirror
        return mirror

    def take(self, which: Any) -> "Batch":
        """Select some instances, or all in another shape."""

        def pick(values: Any) -> Any:
            return values[which] if isinstance(values, np.ndarray | HourSums) else values

        load = self.asked.row.load
        loads = Load(pick(load.cpu), pick(load.mem), pick(load.dsk), pick(load.net))
        asked = with_amounts(self.asked, pick)
        row, hours = replace(asked.row, load=loads), tuple(map(pick, asked.hours))
        asked = replace(asked, row=row, hours=hours)
        return Batch(self.rows[which], asked, self.tags[which], self.desires[which])


FIGURES = ("mem", "record_mem", "secondary_mem", "vcpus", "spindles", "spindle_use")
# One amount for each storage unit or custom class.
AMOUNTS = ("disk", "classes", "secondary_classes")
_TOGETHER = 512  # nodes whose reservations are copied at once: those of all are large


def with_amounts(asked: RequestedInstance, change: Callable[[Any], Any]) -> RequestedInstance:
    """Return the instance with each known amount that it takes of nodes changed."""
    figures: Any = {name: change(known) for name in FIGURES if (known := getattr(asked, name)) is not None}
    figures |= {name: tuple(map(change, getattr(asked, name))) for name in AMOUNTS}
    return replace(asked, **figures)


@dataclass(slots=True)
class NodeFacts:
    """A state, and the conflicts of each set of tags (rows in ``tag_sets``) on each node."""

    state: State
    tag_sets: TagSets
    present: Ints  # number of tags of the set that some primary has (sets by nodes)
    others: Ints  # number of tags that at least two primaries have
    unmet: Ints  # number of desired locations that the node lacks
    reserved: Ints  # the two largest reservations on each node (2 by nodes), larger last
    kept: tuple[Ints, ...]  # the same of each custom class

    @classmethod
    def of(cls, state: State, tag_sets: TagSets, unmet: Ints, secondaries: Ints) -> "NodeFacts":
        """Collect the facts; what nodes keep free is that of the ``secondaries`` only."""
        present, others = np.zeros((2, len(tag_sets.ends), len(state.group)), np.int64)
        reserved, *kept = np.zeros((1 + len(state.class_peers), 2, len(state.group)), np.int64)
        facts = cls(state, tag_sets, present, others, unmet, reserved, tuple(kept))
        facts._count_tags(slice(None))
        facts._reserve(secondaries)
        return facts

    def refresh(self, nodes: Ints) -> None:
        """Update the figures of nodes that moves have touched."""
        self._count_tags(nodes)
        self._reserve(nodes)

    def _count_tags(self, nodes: Any) -> None:
        if len(self.present) > 1:  # the first set is empty
            counts = self.state.tag_counts[:, nodes]
            self.present[:, nodes] = self.tag_sets.counts(counts, 0)
            self.others[:, nodes] = self.tag_sets.counts(counts, 1)

    def _reserve(self, nodes: Ints) -> None:
        for start in range(0, len(nodes), _TOGETHER):
            some = nodes[start : start + _TOGETHER]
            self.reserved[:, some] = _two_largest(self.state.peers[:, some])
            for kept, peers in zip(self.kept, self.state.class_peers, strict=True):
                kept[:, some] = _two_largest(peers[:, some])

    def kept_without(self, batch: Batch, p: Ints, s: Ints) -> tuple[Ints, list[Ints]]:
        """Compute what each secondary keeps free for the worst of its peers without the instance.

        That is memory (MiB), and the amount of each custom class.
        """
        state, asked = self.state, batch.asked
        own = (
            (0,) * (1 + len(self.kept))
            if asked.forthcoming
            else (asked.secondary_mem, *asked.secondary_classes)
        )
        tables = zip((state.peers, *state.class_peers), (self.reserved, *self.kept), own, strict=True)
        memory, *classes = [
            _without(peers[p, s], largest[:, s], amounts) for peers, largest, amounts in tables
        ]
        return memory, classes


def _without(kept: Ints, largest: Ints, own: Any) -> Ints:
    """Compute the largest amount that nodes keep free once they keep less for one of their peers."""
    second, first = largest
    return np.asarray(np.maximum(np.where(kept == first, second, first), kept - own))


def _two_largest(peers: Ints) -> Ints:
    kept = peers.T.copy()
    places = np.arange(len(kept)), kept.argmax(axis=1)
    first = kept[places]
    kept[places] = 0
    return np.stack([kept.max(axis=1), first])


def batch_of_one(state: State, asked: RequestedInstance) -> tuple[Batch, NodeFacts]:
    """Return one instance as a batch, and the facts about nodes that its moves need."""
    row = np.array([asked.index])
    tagged, desiring = bool(len(asked.tags)), bool(len(asked.desired) + asked.unknown_desires)
    unmet = np.zeros((1 + desiring, len(state.group)), np.int64)
    unmet[-1] = affinity.unmet_locations(state, asked)
    mirrors, tag_sets = state.snode[row], TagSets.of([asked.tags[:0], asked.tags][: 1 + tagged])
    facts = NodeFacts.of(state, tag_sets, unmet, mirrors[mirrors != NOWHERE])
    return Batch(row, asked, np.array([int(tagged)]), np.array([int(desiring)])), facts


def batches_of(state: State, movable: Bools, unmirrored: bool = False) -> tuple[list[Batch], NodeFacts]:
    """Group the movable instances with a mirror into batches, and collect the facts about nodes.

    Instances without a mirror are included only with ``unmirrored``.
    """
    cluster = state.cluster
    figures_of = tabulate(cluster.instances, state.figures, units=state.units)
    values = figures_of.values
    internal, external, alone = balanced(state)
    alone &= unmirrored
    movable = movable & (internal | external | alone)
    vague = values["vague"] & state.columns.excl_stor.any()
    tagged = np.flatnonzero(values["tagged"] & movable).tolist()
    tag_of, tag_sets = _numbered(len(values), tagged, _exclusion(state))
    desire_of, desire_sets = _numbered(len(values), tagged, _desires(state))
    unit = np.column_stack([internal, alone, state.forthcoming, vague, state.wants])
    batches = []
    for traits in sorted({tuple(each) for each in unit[movable].tolist()}, reverse=True):
        rows = np.flatnonzero(movable & (unit == traits).all(axis=1))
        mirrored, _, forthcoming, unclear, *wants = traits
        own = values[rows]
        loads = np.ascontiguousarray(own["load"].T)
        cpu = loads[0]
        load: Any = Load(*(cpu if np.array_equal(cpu, loads[kind]) else loads[kind] for kind in range(4)))
        figures: Any = {name: np.ascontiguousarray(own[name]) for name in FIGURES}
        if unclear:
            figures["spindles"] = None
        asked = RequestedInstance(
            row=replace(cluster.instances[int(rows[0])], load=load),
            disk=_amounts(state.disk[rows]),
            wants=tuple(wants),
            spare=(0,) * len(state.units.local),
            mirrored=bool(mirrored),
            tags=np.zeros(0, np.int64),
            desired=np.zeros(0, np.int64),
            unknown_desires=0,
            forthcoming=bool(forthcoming),
            classes=_amounts(figures_of.classes[rows]),
            secondary_classes=_amounts(figures_of.secondary_classes[rows]),
            hours=state.load.take(rows) if state.load else (),
            **figures,
        )
        batches.append(Batch(rows, asked, tag_of[rows], desire_of[rows]))
    nodes = len(state.group)
    unmet = np.zeros((len(desire_sets), nodes), np.int64)
    for number, (known, unmeetable) in enumerate(desire_sets):
        met = np.count_nonzero(state.location_tags[:, list(known)], axis=1) if known else 0
        unmet[number] = len(known) + unmeetable - met
    return batches, NodeFacts.of(state, TagSets.of(tag_sets), unmet, np.arange(nodes))


def balanced(state: State) -> tuple[Bools, Bools, Bools]:
    """Mark the instances that can be balanced: with a secondary, on storage that all nodes see, and alone.

    Ganeti does not move forthcoming instances without a mirror.
    """
    templates, kinds = list(DiskTemplate), list(MirrorType)
    mirrors = np.array([kinds.index(template.mirror) for template in templates])[state.template]
    internal, external, alone = (
        mirrors == kinds.index(kind) for kind in (MirrorType.INTERNAL, MirrorType.EXTERNAL, MirrorType.NONE)
    )
    return (internal & (state.snode != NOWHERE), external, alone & ~state.forthcoming)


def _amounts(taken: Ints) -> tuple[Any, ...]:
    """Split amounts (instances by units or classes) into columns, 0 where no instance takes anything."""
    amounts = (np.ascontiguousarray(column) for column in taken.T)
    return tuple(column if column.any() else 0 for column in amounts)


def _numbered(size: int, tagged: Sequence[int], what: Callable[[int], Any]) -> tuple[Ints, list[Any]]:
    """Number the different values of ``what`` among instances; 0 stands for the value of NOWHERE."""
    numbers: dict[Any, int] = {what(NOWHERE): 0}
    result = np.zeros(size, np.int64)
    for row in tagged:
        result[row] = numbers.setdefault(what(row), len(numbers))
    return result, list(numbers)


def _exclusion(state: State) -> Callable[[int], tuple[int, ...]]:
    prefixes = tags.exclusion_prefixes(state.cluster.tags)

    def chosen(row: int) -> tuple[int, ...]:
        held = () if row == NOWHERE else tags.exclusion_tags(prefixes, state.cluster.instances[row].tags)
        return tuple(sorted(state.tag_rows[tag] for tag in held))

    return chosen


def _desires(state: State) -> Callable[[int], tuple[tuple[int, ...], int]]:
    cluster = state.cluster

    def desired(row: int) -> tuple[tuple[int, ...], int]:
        wanted = (
            frozenset[str]()
            if row == NOWHERE
            else tags.desired_locations(cluster.tags, cluster.instances[row].tags)
        )
        known = tuple(sorted(state.location_rows[tag] for tag in wanted if tag in state.location_rows))
        return known, len(wanted) - len(known)

    return desired
