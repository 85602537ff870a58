"""Trying instances on other nodes, on all candidates at once, and carrying out what was chosen.

A :class:`Trial` holds, for each candidate node, why it does not do and what would become of the
nodes concerned. :func:`settle` carries out a trial that has one candidate, in place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from ganeti_htools.engine.rules import node_rules
from ganeti_htools.engine.rules.components import CROWDING
from ganeti_htools.engine.rules.node_rules import CODE, FITS, Codes
from ganeti_htools.engine.rules.score import Statistics, node_values, rows_of
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import FORTHCOMING, NOWHERE, Bools, Columns, Floats, Ints
from ganeti_htools.model.figures import TEMPLATE_CODE
from ganeti_htools.model.policy import Demand, violation
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import DiskTemplate, Fail

# Elements of a block of pairs: its arrays stay in the processor's cache.
BLOCK = 1 << 15


class Kind(Enum):
    """What a step of a move does."""

    FAILOVER = "failover"  # to the secondary
    FAILOVER_TO = "failover to"  # any node, on storage all nodes see
    REPLACE_SECONDARY = "replace secondary"
    REPLACE_AND_FAILOVER = "replace secondary and fail over"  # the new node becomes primary
    REPLACE_PRIMARY = "replace primary"  # by way of the secondary, which stays one
    FAILOVER_AND_REPLACE = "fail over and replace secondary"  # the primary is left


@dataclass(frozen=True, slots=True)
class Touched:
    """Nodes that change: one for all candidates, or one for each. Columns before and after."""

    rows: Ints
    old: Columns
    new: Columns


@dataclass(frozen=True, slots=True)
class Trial:
    """An instance with ``pnode`` and ``snode`` (rows, one for all or one per candidate) tried out.

    ``crowding`` is the change of the location exclusion score.
    """

    asked: Asked
    codes: Codes
    pnode: Ints
    snode: Ints
    touched: tuple[Touched, ...]
    crowding: Any = 0.0

    def scores(self, base: Statistics) -> Floats:
        """The score of each candidate, fit or not."""
        sums = list(base.sums)
        sums[CROWDING] = sums[CROWDING] + self.crowding
        base = replace(base, sums=tuple(sums))
        *first, last = self.touched
        with np.errstate(invalid="ignore", over="ignore"):  # nodes that report nothing
            for node in first:
                old = node_values(node.old)
                base = base.replaced(old, node_values(node.new, (node.old, old)), node.old.offline)
            old, offline = node_values(last.old), last.old.offline
            new = node_values(last.new, (last.old, old))
            if self.codes.ndim < 2:
                return np.broadcast_to(base.replaced(old, new, offline).score(), self.codes.shape)
            scores = np.empty(self.codes.shape)
            rows = max(1, BLOCK * len(scores) // max(1, scores.size))
            for start in range(0, len(scores), rows):
                block = slice(start, start + rows)
                changed = base.rows(block).replaced(old, rows_of(new, block), offline)
                scores[block] = changed.score()
            return scores

    def only(self, candidate: int) -> "Trial":
        """The trial of one candidate, ready to be settled."""
        if self.codes.size == 1:
            return self

        def pick(values: Any) -> Any:
            at = candidate if len(values) > 1 else 0
            return values[at : at + 1]

        return Trial(
            self.asked,
            pick(self.codes),
            pick(self.pnode),
            pick(self.snode),
            tuple(Touched(pick(node.rows), node.old.map(pick), node.new.map(pick)) for node in self.touched),
        )


def present(state: State, asked: Asked) -> Ints:
    """For each node, how many of the instance's exclusion tags some other primary there has too."""
    counts = state.tag_counts[asked.tags]
    if asked.index != NOWHERE:
        counts = counts.copy()
        counts[:, state.pnode[asked.index]] -= 1
    return np.asarray(np.count_nonzero(counts > 0, axis=0))


def unmet(state: State, asked: Asked) -> Ints:
    """For each node, how many desired locations of the instance it lacks."""
    met = np.count_nonzero(state.located[:, asked.desired], axis=1)
    return np.asarray(len(asked.desired) + asked.unknown_desires - met)


def shared_locations(state: State, pnode: Any, snode: Any) -> Any:
    """How many location tags primary and secondary share; arrays broadcast."""
    return np.count_nonzero(state.located[pnode] & state.located[snode], axis=-1)


def instance_location(state: State, asked: Asked) -> int:
    """The location score an instance has where it is."""
    pnode, snode = state.pnode[asked.index], state.snode[asked.index]
    return int(shared_locations(state, pnode, snode)) if snode != NOWHERE else 0


def crowding(state: State, scope: Bools) -> float:
    """Settled instances in excess of one for each pair of location and exclusion tag.

    Only online nodes in scope count.
    """
    pairs = _crowds(state, scope, slice(None))
    return float(np.maximum(pairs - 1, 0).sum())


def _crowds(state: State, scope: Bools, tags: Any) -> Ints:
    counted = scope & ~state.columns.offline
    crowds: Ints = state.located[counted].T.astype(np.int64) @ state.settled_tag_counts[tags][:, counted].T
    return crowds


def crowding_change(state: State, asked: Asked, targets: Ints, scope: Bools) -> Any:
    """How :func:`crowding` changes when the instance goes from its primary, if any, to each target."""
    if asked.forthcoming or not len(asked.tags) or not state.location_rows:
        return 0.0
    crowds = _crowds(state, scope, asked.tags)
    counted = scope & ~state.columns.offline
    change = 0
    source = state.pnode[asked.index] if asked.index != NOWHERE else NOWHERE
    if source != NOWHERE and counted[source]:
        here = state.located[source]
        change -= int(np.count_nonzero(crowds[here] >= 2))
        crowds[here] -= 1
    added = np.where(counted, state.located @ np.count_nonzero(crowds > 0, axis=1), 0)[targets]
    return (change + added).astype(np.float64)


def _forbidden(state: State, source: int, targets: Ints, codes: Codes) -> Codes:
    """Codes with migration restrictions, which are looked at first."""
    if state.migrates is None:
        return codes
    return np.where(state.migrates[source, targets], codes, np.int8(CODE[Fail.MIGRATION]))


def _row(row: int) -> Ints:
    return np.array([row], np.int64)


def _first(*codes: Codes) -> Codes:
    """The first reason against, step by step."""
    result = codes[0]
    for code in codes[1:]:
        result = np.where(result == FITS, code, result)
    return result


def reserved_without(state: State, node: int, primary: int, asked: Asked) -> int:
    """The largest reservation (MiB) on a node once it is no longer secondary of an instance."""
    peers = state.peers[:, node].copy()
    if not asked.forthcoming:
        peers[primary] -= asked.secondary_mem
    return int(peers.max())


def policy_codes(state: State, asked: Asked, targets: Ints) -> Codes:
    """Why the instance policy of each target's group refuses the instance."""
    codes: Codes = refusals(state, (asked.row.demand,), targets)[0]
    return codes


def refusals(state: State, demands: Sequence[Demand], targets: Ints) -> Codes:
    """The same for several demands: a row for each."""
    kinds = list(zip(state.group[targets].tolist(), state.columns.excl_stor[targets].tolist(), strict=True))
    codes = np.zeros((len(demands), len(kinds)), np.int8)
    for group, exclusive in set(kinds):
        reasons = [violation(demand, state.policies[group], exclusive) for demand in demands]
        column = [FITS if reason is None else CODE[reason] for reason in reasons]
        alike = np.array([kind == (group, exclusive) for kind in kinds])
        codes[:, alike] = np.array(column, np.int8)[:, np.newaxis]
    return codes


def allocate_one(state: State, asked: Asked, targets: Ints, scope: Bools, force: bool = False) -> Trial:
    """A new instance, or one to be recreated, on each target."""
    fresh = replace(asked, index=NOWHERE)
    old = state.columns.take(targets)
    tags, desires = present(state, fresh)[targets], unmet(state, asked)[targets]
    new, codes = node_rules.add_primary(old, asked, tags, desires, force)
    codes = _first(policy_codes(state, asked, targets), codes)
    change = crowding_change(state, fresh, targets, scope)
    nowhere = _row(NOWHERE)
    return Trial(fresh, codes, targets, nowhere, (Touched(targets, old, new),), change)


def allocate_pairs(
    state: State, asked: Asked, primaries: Ints, secondaries: Ints, peer_mem: Any, force: bool = False
) -> Trial:
    """A new mirrored instance on pairs of nodes: rows that broadcast against each other.

    ``peer_mem`` (MiB) is what each secondary keeps free for its primary already.
    """
    scope = np.ones(len(state.group), np.bool_)
    fresh = replace(asked, index=NOWHERE)
    old_p, old_s = state.columns.take(primaries), state.columns.take(secondaries)
    location: Any = unmet(state, asked)[primaries]
    if state.location_rows:
        location = location + shared_locations(state, primaries, secondaries)
    new_p, codes_p = node_rules.add_primary(old_p, asked, present(state, fresh)[primaries], location, force)
    codes_p = _first(policy_codes(state, asked, primaries.ravel()).reshape(primaries.shape), codes_p)
    new_s, codes_s = node_rules.add_secondary(old_s, asked, peer_mem)
    touched = (Touched(primaries, old_p, new_p), Touched(secondaries, old_s, new_s))
    change = crowding_change(state, fresh, primaries, scope)
    return Trial(fresh, _first(codes_p, codes_s), primaries, secondaries, touched, change)


def move_pairs(
    state: State, asked: Asked, targets: Ints, scope: Bools, force: bool = False
) -> tuple[Trial, list[Codes]]:
    """A mirrored instance moved off both its nodes, to each pair of targets, by its secondary.

    The new primary becomes secondary, takes over, and gets a secondary of its own. The trial, and
    the codes of these three steps. (From a lost primary the instance is failed over first.)
    """
    source, rest = int(state.pnode[asked.index]), int(state.snode[asked.index])
    lost = bool(state.columns.offline[source])
    p, s, rows_t = _row(source), _row(rest), targets[:, np.newaxis]
    old_p, old_s, old_tp, old_ts = (state.columns.take(rows) for rows in (p, s, rows_t, targets))
    tags, desires = present(state, asked), unmet(state, asked)
    location = instance_location(state, asked) + desires
    new_s = node_rules.remove_secondary(old_s, asked, reserved_without(state, rest, source, asked))
    bare_p = node_rules.remove_primary(old_p, asked, tags[p], location[p])
    # The new primary as secondary.
    forced = force or bool(old_s.offline[0])
    _, first = node_rules.add_secondary(old_tp, asked, state.peers[source, rows_t], forced)
    _, again = node_rules.add_primary(bare_p, asked, tags[p], desires[p], force=True)
    first = _first(first, again)
    # Roles exchanged.
    shared = shared_locations(state, source, rows_t)
    _, codes_t = node_rules.add_primary(old_tp, asked, tags[rows_t], shared + desires[rows_t], force or lost)
    kept = state.peers[rows_t, source]
    second_p, codes_p = node_rules.add_secondary(bare_p, asked, kept, force or lost, ignore_disk=lost)
    second = _forbidden(state, source, rows_t, _first(codes_t, codes_p))
    # The final secondary.
    new_ts, third = node_rules.add_secondary(old_ts, asked, state.peers[targets][:, targets], force or lost)
    final = desires[rows_t]
    if state.location_rows:
        final = final + shared_locations(state, rows_t, targets)
    new_tp, again = node_rules.add_primary(old_tp, asked, tags[rows_t], final, force=True)
    third = _first(third, again)
    new_p = node_rules.remove_secondary(second_p, asked, int(old_p.r_mem[0]))
    touched = (
        Touched(p, old_p, new_p),
        Touched(s, old_s, new_s),
        Touched(rows_t, old_tp, new_tp),
        Touched(targets, old_ts, new_ts),
    )
    change = crowding_change(state, asked, rows_t, scope)
    steps = [first, second, third]
    return Trial(asked, _first(*steps), rows_t, targets, touched, change), steps


def failover(state: State, asked: Asked, scope: Bools, force: bool = False) -> Trial:
    """A mirrored instance started on its secondary; the nodes change roles."""
    primary, secondary = int(state.pnode[asked.index]), int(state.snode[asked.index])
    p, s = _row(primary), _row(secondary)
    old_p, old_s = state.columns.take(p), state.columns.take(s)
    lost = bool(old_p.offline[0])
    tags, desires = present(state, asked), unmet(state, asked)
    location = instance_location(state, asked)
    bare_p = node_rules.remove_primary(old_p, asked, tags[p], location + desires[p])
    bare_s = node_rules.remove_secondary(old_s, asked, reserved_without(state, secondary, primary, asked))
    new_s, codes_s = node_rules.add_primary(bare_s, asked, tags[s], location + desires[s], force or lost)
    new_p, codes_p = node_rules.add_secondary(
        bare_p, asked, state.peers[s, p], force or lost, ignore_disk=lost
    )
    codes = _forbidden(state, primary, s, _first(codes_s, codes_p))
    touched = (Touched(p, old_p, new_p), Touched(s, old_s, new_s))
    return Trial(asked, codes, s, p, touched, crowding_change(state, asked, s, scope))


def failover_to(state: State, asked: Asked, targets: Ints, scope: Bools, force: bool = False) -> Trial:
    """An instance on storage all nodes see, started on each target."""
    primary = int(state.pnode[asked.index])
    p = _row(primary)
    old_p, old_t = state.columns.take(p), state.columns.take(targets)
    tags, desires = present(state, asked), unmet(state, asked)
    location = instance_location(state, asked)
    new_p = node_rules.remove_primary(old_p, asked, tags[p], location + desires[p])
    forced = force or bool(old_p.offline[0])
    new_t, codes = node_rules.add_primary(old_t, asked, tags[targets], location + desires[targets], forced)
    codes = _forbidden(state, primary, targets, codes)
    touched = (Touched(p, old_p, new_p), Touched(targets, old_t, new_t))
    change = crowding_change(state, asked, targets, scope)
    return Trial(asked, codes, targets, state.snode[[asked.index]], touched, change)


def replace_secondary(state: State, asked: Asked, targets: Ints, force: bool = False) -> Trial:
    """A mirrored instance with its secondary on each target instead."""
    primary, secondary = int(state.pnode[asked.index]), int(state.snode[asked.index])
    p, s = _row(primary), _row(secondary)
    old_p, old_s, old_t = (state.columns.take(rows) for rows in (p, s, targets))
    tags, desires = present(state, asked)[p], unmet(state, asked)[p]
    bare_p = node_rules.remove_primary(old_p, asked, tags, instance_location(state, asked) + desires)
    new_s = node_rules.remove_secondary(old_s, asked, reserved_without(state, secondary, primary, asked))
    forced = force or bool(old_s.offline[0])
    new_t, codes_t = node_rules.add_secondary(old_t, asked, state.peers[primary, targets], forced)
    location = shared_locations(state, primary, targets) + desires
    new_p, codes_p = node_rules.add_primary(bare_p, asked, tags, location, force=True)
    touched = (Touched(p, old_p, new_p), Touched(s, old_s, new_s), Touched(targets, old_t, new_t))
    return Trial(asked, _first(codes_t, codes_p), p, targets, touched)


def settle(state: State, trial: Trial) -> int:
    """Carry out a trial with one candidate, in place; the instance's row. A new instance gets a row."""
    asked = trial.asked
    pnode, snode = int(trial.pnode[0]), int(trial.snode[0])
    if asked.forthcoming:
        _unshare(state)
    for node in trial.touched:
        state.columns.put(int(node.rows[0]), node.new)
    index = asked.index
    if index == NOWHERE:
        index = _append(state, asked, (asked.row,))
    elif state.pnode[index] != NOWHERE:
        _count(state, asked, int(state.pnode[index]), int(state.snode[index]), -1)
    state.pnode[index], state.snode[index] = pnode, snode
    state.stamp[index] = state.stamp.max() + 1
    _count(state, asked, pnode, snode, 1)
    return index


def without(state: State, index: int) -> State:
    """A state in which an instance with a primary only is taken off it, to be placed anew as mirrored."""
    state = state.copy()
    asked, node = state.instance(index), int(state.pnode[index])
    location = instance_location(state, asked) + unmet(state, asked)[node]
    old = state.columns.take(_row(node))
    state.columns.put(node, node_rules.remove_primary(old, asked, present(state, asked)[[node]], location))
    _count(state, asked, node, NOWHERE, -1)
    state.pnode[index] = NOWHERE
    state.template = state.template.copy()
    state.template[index] = TEMPLATE_CODE[DiskTemplate.DRBD]
    rows = list(state.cluster.instances)
    rows[index] = replace(rows[index], template=DiskTemplate.DRBD)
    state.cluster = replace(state.cluster, instances=tuple(rows))
    return state


def _count(state: State, asked: Asked, pnode: int, snode: int, sign: int) -> None:
    tables = {id(table): table for table in (state.tag_counts, state.settled_tag_counts)}
    for table in tables.values():
        if table is state.tag_counts or not asked.forthcoming:
            table[asked.tags, pnode] += sign
    if snode != NOWHERE and not asked.forthcoming:
        state.peers[pnode, snode] += sign * asked.secondary_mem


def enlist(state: State, asked: Asked, rows: Sequence[Instance], nodes: Sequence[tuple[int, int]]) -> None:
    """Rows for new instances like ``asked`` whose nodes (primary, secondary) have their figures already."""
    if rows:
        first = _append(state, asked, rows)
        state.pnode[first:], state.snode[first:] = np.array(nodes).T
        state.stamp[first:] = state.stamp.max() + np.arange(1, len(rows) + 1)


def _append(state: State, asked: Asked, rows: Sequence[Instance]) -> int:
    """Rows for instances like ``asked``; the first of them."""
    first, number = len(state.pnode), len(rows)
    state.cluster = replace(state.cluster, instances=(*state.cluster.instances, *rows))
    for name, value in (
        ("pnode", NOWHERE),
        ("snode", NOWHERE),
        ("stamp", 0),
        ("record_mem", asked.record_mem),
        ("dsk", asked.dsk),
        ("template", TEMPLATE_CODE[asked.row.template]),
        ("forthcoming", asked.forthcoming),
    ):
        known = getattr(state, name)
        setattr(state, name, np.append(known, np.full(number, value, known.dtype)))
    return first


def unshared(columns: Columns) -> Columns:
    """The same, with columns of their own for views that count forthcoming instances."""
    return columns.changed(**{name: getattr(columns, name).copy() for name in FORTHCOMING.values()})


def _unshare(state: State) -> None:
    state.columns = unshared(state.columns)
    if state.settled_tag_counts is state.tag_counts:
        state.settled_tag_counts = state.tag_counts.copy()
