"""Many instances tried at once in all the ways in which one move changes one of their nodes (``hbal(1)``).

A move by failovers and replaced secondaries leaves an instance with its old nodes in other roles, or
with one new node. :class:`Crew` holds instances as columns; :func:`leave` tells what becomes of the
nodes they have, :func:`arrive` what becomes of a node that is new to them. Everything is computed by
the rules in :mod:`ganeti_htools.engine.places`, instance by instance.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ganeti_htools.engine.rules import affinity, node_rules
from ganeti_htools.engine.rules.move_kinds import MoveKind
from ganeti_htools.engine.rules.node_rules import CODE, FITS, Codes
from ganeti_htools.engine.rules.trial import NodeChange, Trial
from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Load
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Ints
from ganeti_htools.model.figures import tabulate
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import DiskTemplate, Fail, Mirror


@dataclass(frozen=True, slots=True)
class Crew:
    """Instances of one kind of storage. All fields are arrays over them, in row order.

    ``asked`` has arrays for figures, too. ``tags`` and ``desires`` number the sets of exclusion tags
    and desired locations that occur (see :class:`Surroundings`).
    """

    rows: Ints
    asked: Asked
    tags: Ints
    desires: Ints

    def take(self, which: Any) -> "Crew":
        """Some of them, or all with another shape."""
        asked = self.asked

        def pick(values: Any) -> Any:
            return values if values is None else values[which]

        load = asked.row.load
        kinds = {id(amounts): pick(amounts) for amounts in (load.cpu, load.mem, load.dsk, load.net)}
        loads = Load(*(kinds[id(amounts)] for amounts in (load.cpu, load.mem, load.dsk, load.net)))
        figures = {name: pick(getattr(asked, name)) for name in FIGURES}
        asked = replace(asked, row=replace(asked.row, load=loads), **figures)
        return Crew(self.rows[which], asked, self.tags[which], self.desires[which])


FIGURES = ("mem", "record_mem", "secondary_mem", "dsk", "vcpus", "spindles", "spindle_use")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A state, and for each set of tags (their rows in ``tag_sets``) what it meets on each node."""

    state: State
    tag_sets: Sequence[Ints]
    present: Ints  # how many tags of the set some primary there has (sets by nodes)
    others: Ints  # how many tags at least two have
    unmet: Ints  # how many desired locations the node lacks
    reserved: Ints  # the two largest reservations on each node (2 by nodes), larger last

    def refresh(self, nodes: Ints) -> None:
        """Take note of moves that touched these nodes."""
        state = self.state
        for row, chosen in enumerate(self.tag_sets):
            counts = state.tag_counts[chosen][:, nodes]
            self.present[row, nodes] = np.count_nonzero(counts > 0, axis=0)
            self.others[row, nodes] = np.count_nonzero(counts > 1, axis=0)
        self.reserved[:, nodes] = _two_largest(state.peers[:, nodes])

    def reserved_without(self, crew: Crew, p: Ints, s: Ints) -> Ints:
        """The largest reservation on each secondary once it is none any more."""
        kept = self.state.peers[p, s]
        second, first = self.reserved[0, s], self.reserved[1, s]
        others = np.where(kept == first, second, first)
        left = kept if crew.asked.forthcoming else kept - crew.asked.secondary_mem
        return np.asarray(np.maximum(others, left))


def _two_largest(peers: Ints) -> Ints:
    if len(peers) == 1:
        return np.concatenate([np.zeros_like(peers), peers])
    largest: Ints = np.partition(peers, -2, axis=0)[-2:]
    return largest


def muster(state: State, movable: Bools) -> tuple[list[Crew], Surroundings]:
    """The movable instances that are mirrored in any way, as crews, and what surrounds them.

    Diskless instances are not balanced, although they could be.
    """
    cluster = state.cluster
    values = tabulate(cluster.instances, state.figures).values
    templates = list(DiskTemplate)
    mirrors = np.array([list(Mirror).index(template.mirror) for template in templates])[state.template]
    internal = (mirrors == list(Mirror).index(Mirror.INTERNAL)) & (state.snode != NOWHERE)
    external = (mirrors == list(Mirror).index(Mirror.EXTERNAL)) & (
        state.template != templates.index(DiskTemplate.DISKLESS)
    )
    movable = movable & (internal | external)
    vague = values["vague"] & state.columns.excl_stor.any()
    tagged = np.flatnonzero(values["tagged"] & movable).tolist()
    tag_of, tag_sets = _numbered(len(values), tagged, _exclusion(state))
    desire_of, desire_sets = _numbered(len(values), tagged, _desires(state))
    unit = np.stack([internal, values["local"], state.forthcoming, vague], axis=1)
    crews = []
    for traits in sorted({tuple(each) for each in unit[movable].tolist()}, reverse=True):
        rows = np.flatnonzero(movable & (unit == traits).all(axis=1))
        mirrored, local, forthcoming, unclear = traits
        own = values[rows]
        loads = np.ascontiguousarray(own["load"].T)
        cpu = loads[0]
        load: Any = Load(*(cpu if np.array_equal(cpu, loads[kind]) else loads[kind] for kind in range(4)))
        figures: Any = {name: np.ascontiguousarray(own[name]) for name in FIGURES}
        if unclear:
            figures["spindles"] = None
        asked = Asked(
            row=replace(cluster.instances[int(rows[0])], load=load),
            local=bool(local),
            mirrored=bool(mirrored),
            tags=np.zeros(0, np.int64),
            desired=np.zeros(0, np.int64),
            unknown_desires=0,
            forthcoming=bool(forthcoming),
            **figures,
        )
        crews.append(Crew(rows, asked, tag_of[rows], desire_of[rows]))
    nodes = len(state.group)
    unmet = np.zeros((len(desire_sets), nodes), np.int64)
    for number, (known, unmeetable) in enumerate(desire_sets):
        met = np.count_nonzero(state.located[:, list(known)], axis=1) if known else 0
        unmet[number] = len(known) + unmeetable - met
    surroundings = Surroundings(
        state,
        [np.array(chosen, np.int64) for chosen in tag_sets],
        np.zeros((len(tag_sets), nodes), np.int64),
        np.zeros((len(tag_sets), nodes), np.int64),
        unmet,
        np.zeros((2, nodes), np.int64),
    )
    surroundings.refresh(np.arange(nodes))
    return crews, surroundings


def _numbered(size: int, tagged: Sequence[int], what: Callable[[int], Any]) -> tuple[Ints, list[Any]]:
    """A number for what each instance has, 0 for nothing, and what the numbers stand for."""
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


def _coded(
    rule: Callable[..., tuple[Columns, Codes]], *facts: Any, force: bool, lost: Any, **leniency: bool
) -> tuple[Columns, Codes]:
    """A rule with force for those with a lost node; ``leniency`` is for these, too."""
    new, codes = rule(*facts, force=force)
    if np.any(lost) and (leniency or not force):
        codes = np.where(lost, rule(*facts, force=True, **leniency)[1], codes)
    return new, codes


def _first(codes: Codes, *more: Codes) -> Codes:
    for code in more:
        codes = np.where(codes == FITS, code, codes)
    return codes


def leave(
    around: Surroundings, crew: Crew, kinds: Iterable[MoveKind], force: bool, new: Ints | None = None
) -> dict[MoveKind, tuple[list[NodeChange], Codes]]:
    """What becomes of primary and secondary (if it has one) when instances move, and why it must not be.

    For each kind of move; what is the same for several is one object. ``new`` are rows of the new nodes,
    one for each instance. Without them, the nodes are taken to have no instances and no location in
    common with them, and migration to them is not looked at.
    """
    state, asked = around.state, crew.asked
    columns = state.columns
    p, s = state.pnode[crew.rows], state.snode[crew.rows]
    old_p = columns.take(p)
    lost = old_p.offline
    desired_p = around.unmet[crew.desires, p]
    others = around.others[crew.tags, p]
    located = bool(state.location_rows)
    together: Any = affinity.shared_locations(state, p, s) * (s != NOWHERE) if located else 0
    bare_p = node_rules.remove_primary(old_p, asked, others, together + desired_p)
    migrates = state.migrates
    barred = np.full(len(crew.rows), CODE[Fail.MIGRATION], np.int8)

    def passing(codes: Codes, sources: Ints, targets: Ints | None) -> Codes:
        if migrates is None or targets is None:
            return codes
        return np.where(migrates[sources, targets], codes, barred)

    if not asked.mirrored:
        codes = passing(np.zeros_like(barred), p, new)
        return {kind: ([NodeChange(p, old_p, bare_p)], codes) for kind in kinds}
    old_s = columns.take(s)
    bare_s = node_rules.remove_secondary(old_s, asked, around.reserved_without(crew, p, s))  # type: ignore[arg-type]
    conflicts, desired_s = around.present[crew.tags, s], around.unmet[crew.desires, s]
    known: dict[int, tuple[Columns, Codes]] = {}

    def shared(node: Ints) -> Any:
        return affinity.shared_locations(state, node, new) if located and new is not None else 0

    def takes_over(location: Any) -> tuple[Columns, Codes]:
        """The secondary becomes primary, with what it shares with the other node then."""
        key = id(location) if located else 0
        if key not in known:
            facts = bare_s, asked, conflicts, location + desired_s
            known[key] = _coded(node_rules.add_primary, *facts, force=force, lost=lost)
        return known[key]

    result = {}
    for kind in kinds:
        new_p, new_s = bare_p, bare_s
        match kind:
            case MoveKind.FAILOVER:
                new_s, codes = takes_over(together)
                kept: Any = state.peers[s, p]
                new_p, again = _coded(
                    node_rules.add_secondary, bare_p, asked, kept, force=force, lost=lost, ignore_disk=True
                )
                codes = passing(_first(codes, again), p, s)
            case MoveKind.REPLACE_SECONDARY:
                new_p, codes = node_rules.add_primary(
                    bare_p, asked, others, desired_p + shared(p), force=True
                )
            case MoveKind.REPLACE_AND_FAILOVER:
                kept = 0 if new is None else state.peers[new, p]
                new_p, codes = _coded(
                    node_rules.add_secondary, bare_p, asked, kept, force=force, lost=old_s.offline
                )
                codes = passing(codes, p, new)
            case MoveKind.REPLACE_PRIMARY:
                kept = 0 if new is None else state.peers[new, s]
                meanwhile, codes = takes_over(0)
                back = node_rules.remove_primary(meanwhile, asked, conflicts, desired_s)
                new_s, again = _coded(node_rules.add_secondary, back, asked, kept, force=force, lost=lost)
                codes = passing(passing(_first(codes, again), s, new), p, s)
            case _:
                new_s, codes = takes_over(shared(s))
                codes = passing(codes, p, s)
        result[kind] = [NodeChange(p, old_p, new_p), NodeChange(s, old_s, new_s)], codes
    return result


def arrive(
    around: Surroundings, crew: Crew, kind: MoveKind, force: bool, new: Ints, apart: bool = False
) -> tuple[NodeChange, Codes]:
    """What becomes of the new nodes (rows), and why the instances must not come.

    Arrays broadcast against each other; with ``apart``, nodes are taken to have no instances and no
    location in common with those that instances have.
    """
    state, asked = around.state, crew.asked
    old = state.columns.take(new)
    if apart:
        if kind.to_primary:
            conflicts, location = around.present[crew.tags, new], around.unmet[crew.desires, new]
            came, codes = node_rules.add_primary(old, asked, conflicts, location, force=force)
        else:
            came, codes = node_rules.add_secondary(old, asked, 0, force=force)
        return NodeChange(new, old, came), codes
    p, s = state.pnode[crew.rows], state.snode[crew.rows]
    offline = state.columns.offline
    if kind.to_primary:
        location = around.unmet[crew.desires, new]
        if state.location_rows and kind is MoveKind.FAILOVER_TO:
            location = location + affinity.shared_locations(state, p, s) * (s != NOWHERE)
        elif state.location_rows:
            other = p if kind is MoveKind.REPLACE_AND_FAILOVER else s
            location = location + affinity.shared_locations(state, other, new)
        lost: Any = np.False_ if kind is MoveKind.REPLACE_AND_FAILOVER else offline[p]
        facts = old, asked, around.present[crew.tags, new], location
        came, codes = _coded(node_rules.add_primary, *facts, force=force, lost=lost)
    else:
        stays, gone = (p, s) if kind is MoveKind.REPLACE_SECONDARY else (s, p)
        kept = state.peers[stays, new]
        came, codes = _coded(node_rules.add_secondary, old, asked, kept, force=force, lost=offline[gone])
    return NodeChange(new, old, came), codes


def nodes_after(state: State, crew: Crew, kind: MoveKind, new: Ints | None) -> tuple[Ints, Ints]:
    """Rows of primary and secondary after the move."""
    p, s = state.pnode[crew.rows], state.snode[crew.rows]
    after: tuple[Ints, Ints] = kind.nodes(p, s, new)
    return after


def relocate(
    around: Surroundings, crew: Crew, kind: MoveKind, force: bool, new: Ints | None
) -> tuple[list[NodeChange], Codes]:
    """The moves of instances, each to its own new node: what becomes of all nodes, and why it must not be."""
    touched, codes = leave(around, crew, [kind], force, new)[kind]
    if new is None:
        return touched, codes
    came, more = arrive(around, crew, kind, force, new)
    return [*touched, came], _first(codes, more)


def tried(around: Surroundings, crew: Crew, member: int, kind: MoveKind, node: int, force: bool) -> Trial:
    """The move of one member to one new node (a row, NOWHERE for a failover), to be settled if it fits."""
    crew, new = crew.take(np.array([member])), None if node == NOWHERE else np.array([node])
    touched, codes = relocate(around, crew, kind, force, new)
    asked = around.state.instance(int(crew.rows[0]))
    return Trial(asked, codes, *nodes_after(around.state, crew, kind, new), tuple(touched))


def crowding_change(around: Surroundings, crew: Crew, kind: MoveKind, new: Ints | None, scope: Bools) -> Any:
    """How the location exclusion score changes with each move."""
    state = around.state
    if kind is MoveKind.REPLACE_SECONDARY or not state.location_rows or crew.asked.forthcoming:
        return 0.0
    tagged = np.flatnonzero(crew.tags)
    if not len(tagged):
        return 0.0
    change = np.zeros(len(crew.rows))
    goal = nodes_after(state, crew, kind, new)[0]
    for row in sorted(set(crew.rows[tagged].tolist())):
        which = np.flatnonzero(crew.rows == row)
        change[which] = affinity.crowding_change(state, state.instance(row), goal[which], scope)
    return change
