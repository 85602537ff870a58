"""The placements there are, each tried on all candidates at once: allocations, failovers, replaced disks.

``targets`` are rows of nodes, the candidates. ``scope`` (a mask) are the nodes that count in the location
exclusion score. Soft limits hold unless ``force`` is set, or the instance leaves a node that is lost. Rules
of tags (:mod:`.placement_rules`) always hold.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ganeti_htools.engine.rules import affinity, instance_policy, node_rules, placement_rules
from ganeti_htools.engine.rules.node_rules import CODE, Codes, first_reason
from ganeti_htools.engine.rules.trial import NodeChange, Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Ints, of_class
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail


def _row(row: int) -> Ints:
    return np.array([row], np.int64)


def kept_without(state: State, node: int, primary: int, asked: RequestedInstance) -> tuple[int, list[int]]:
    """Compute what a node keeps free for the worst of its peers once the instance is no longer its secondary.

    That is memory (MiB), and the amount of each custom class.
    """

    def largest(peers: Ints, own: int) -> int:
        left = peers[:, node].copy()
        left[primary] -= 0 if asked.forthcoming else own
        return int(left.max())

    return largest(state.peers, asked.secondary_mem), list(
        map(largest, state.class_peers, asked.secondary_classes)
    )


def _as_secondary(
    state: State,
    columns: Columns,
    asked: RequestedInstance,
    primary: Any,
    secondary: Any,
    force: bool,
    ignore_disk: bool = False,
) -> tuple[Columns, Codes]:
    """Compute the columns of secondaries (rows, with their columns) of an instance with these primaries."""
    memory, kept = state.peers[primary, secondary], class_peers(state, primary, secondary)
    return node_rules.add_secondary(columns, asked, memory, force, ignore_disk, kept)


def class_peers(state: State, primary: Any, secondary: Any) -> list[Any]:
    """Return what secondaries keep free of each custom class for primaries (rows that broadcast)."""
    return [peers[primary, secondary] for peers in state.class_peers]


def _without_secondary(
    state: State, columns: Columns, asked: RequestedInstance, node: int, primary: int
) -> Columns:
    """Compute the columns of a node (row) that is no longer the secondary of an instance with that primary
    (row).
    """
    return node_rules.remove_secondary(columns, asked, *kept_without(state, node, primary, asked))


def allocate_one(
    state: State, asked: RequestedInstance, targets: Ints, scope: Bools, force: bool = False
) -> Trial:
    """Try a new instance, or one to be recreated, on each target."""
    fresh = replace(asked, index=NOWHERE)
    old = state.columns.take(targets)
    conflicts = affinity.tag_conflicts(state, fresh)[targets]
    location = affinity.unmet_locations(state, asked)[targets]
    new, codes = node_rules.add_primary(old, asked, conflicts, location, force)
    codes = first_reason(instance_policy.codes(state, asked, targets), codes)
    codes = placement_rules.codes(state, asked, codes, targets)
    change = affinity.location_exclusion_change(state, fresh, targets, scope)
    nowhere = _row(NOWHERE)
    return Trial(fresh, codes, targets, nowhere, (NodeChange(targets, old, new),), change)


def allocate_pairs(
    state: State,
    asked: RequestedInstance,
    primaries: Ints,
    secondaries: Ints,
    peer_mem: Any,
    force: bool = False,
) -> Trial:
    """Try a new mirrored instance on pairs of nodes: rows that broadcast against each other.

    ``peer_mem`` (MiB) is what each secondary keeps free for its primary already.
    """
    scope = np.ones(len(state.group), np.bool_)
    fresh = replace(asked, index=NOWHERE)
    old_p, old_s = state.columns.take(primaries), state.columns.take(secondaries)
    location: Any = affinity.unmet_locations(state, asked)[primaries]
    if state.location_rows:
        location = location + affinity.shared_locations(state, primaries, secondaries)
    conflicts = affinity.tag_conflicts(state, fresh)[primaries]
    new_p, codes_p = node_rules.add_primary(old_p, asked, conflicts, location, force)
    codes_p = first_reason(
        instance_policy.codes(state, asked, primaries.ravel()).reshape(primaries.shape), codes_p
    )
    kept = class_peers(state, primaries, secondaries)
    new_s, codes_s = node_rules.add_secondary(old_s, asked, peer_mem, peers=kept)
    touched = (NodeChange(primaries, old_p, new_p), NodeChange(secondaries, old_s, new_s))
    change = affinity.location_exclusion_change(state, fresh, primaries, scope)
    codes = placement_rules.codes(state, asked, first_reason(codes_p, codes_s), primaries, secondaries)
    return Trial(fresh, codes, primaries, secondaries, touched, change)


def move_pairs(
    state: State, asked: RequestedInstance, targets: Ints, scope: Bools, force: bool = False
) -> tuple[Trial, list[Codes]]:
    """Try to move a mirrored instance off both its nodes, to each pair of targets (primaries by secondaries).

    The new primary first becomes secondary, then takes over, then gets a secondary. Returns the trial, and
    the codes of these three steps. Precondition: the primary is online; otherwise the instance fails over
    before.
    """
    source, rest = int(state.pnode[asked.index]), int(state.snode[asked.index])
    lost = bool(state.columns.offline[source])
    p, s, rows_t = _row(source), _row(rest), targets[:, np.newaxis]
    old_p, old_s, old_tp, old_ts = (state.columns.take(rows) for rows in (p, s, rows_t, targets))
    tags, desires = affinity.tag_conflicts(state, asked), affinity.unmet_locations(state, asked)
    location = affinity.location_score(state, asked) + desires
    new_s = _without_secondary(state, old_s, asked, rest, source)
    bare_p = node_rules.remove_primary(old_p, asked, tags[p], location[p])
    # The new primary as secondary.
    forced = force or bool(old_s.offline[0])
    _, first = _as_secondary(state, old_tp, asked, source, rows_t, forced)
    _, again = node_rules.add_primary(bare_p, asked, tags[p], desires[p], force=True)
    first = first_reason(first, again, node_rules.copy_codes(old_p, asked))
    first = placement_rules.codes(state, asked, first, secondary=rows_t, passing=True)
    # Roles exchanged.
    shared = affinity.shared_locations(state, source, rows_t)
    _, codes_t = node_rules.add_primary(old_tp, asked, tags[rows_t], shared + desires[rows_t], force or lost)
    second_p, codes_p = _as_secondary(state, bare_p, asked, rows_t, source, force or lost, ignore_disk=lost)
    second = affinity.migration_codes(state, source, rows_t, first_reason(codes_t, codes_p))
    second = placement_rules.codes(state, asked, second, rows_t)
    # The final secondary.
    new_ts, third = _as_secondary(state, old_ts, asked, rows_t, targets, force or lost)
    final = desires[rows_t]
    if state.location_rows:
        final = final + affinity.shared_locations(state, rows_t, targets)
    new_tp, again = node_rules.add_primary(old_tp, asked, tags[rows_t], final, force=True)
    third = first_reason(third, again, node_rules.copy_codes(old_tp, asked))
    third = placement_rules.codes(state, asked, third, secondary=targets)
    classes = range(len(asked.secondary_classes))
    kept = [int(getattr(old_p, of_class("r", which))[0]) for which in classes]
    new_p = node_rules.remove_secondary(second_p, asked, int(old_p.r_mem[0]), kept)
    touched = (
        NodeChange(p, old_p, new_p),
        NodeChange(s, old_s, new_s),
        NodeChange(rows_t, old_tp, new_tp),
        NodeChange(targets, old_ts, new_ts),
    )
    change = affinity.location_exclusion_change(state, asked, rows_t, scope)
    steps = [first, second, third]
    return Trial(asked, first_reason(*steps), rows_t, targets, touched, change), steps


def failover(state: State, asked: RequestedInstance, scope: Bools, force: bool = False) -> Trial:
    """Try to start a mirrored instance on its secondary; the nodes exchange roles."""
    primary, secondary = int(state.pnode[asked.index]), int(state.snode[asked.index])
    p, s = _row(primary), _row(secondary)
    old_p, old_s = state.columns.take(p), state.columns.take(s)
    lost = bool(old_p.offline[0])
    tags, desires = affinity.tag_conflicts(state, asked), affinity.unmet_locations(state, asked)
    location = affinity.location_score(state, asked)
    bare_p = node_rules.remove_primary(old_p, asked, tags[p], location + desires[p])
    bare_s = _without_secondary(state, old_s, asked, secondary, primary)
    new_s, codes_s = node_rules.add_primary(bare_s, asked, tags[s], location + desires[s], force or lost)
    new_p, codes_p = _as_secondary(state, bare_p, asked, s, p, force or lost, ignore_disk=lost)
    codes = affinity.migration_codes(state, primary, s, first_reason(codes_s, codes_p))
    codes = placement_rules.codes(state, asked, codes, s, p)
    touched = (NodeChange(p, old_p, new_p), NodeChange(s, old_s, new_s))
    return Trial(asked, codes, s, p, touched, affinity.location_exclusion_change(state, asked, s, scope))


def failover_to(
    state: State, asked: RequestedInstance, targets: Ints, scope: Bools, force: bool = False
) -> Trial:
    """Try to start an instance on each target, on storage that all nodes see."""
    return _to_primary(state, asked, targets, scope, force, migrates=True)


def move_to(
    state: State, asked: RequestedInstance, targets: Ints, scope: Bools, force: bool = False
) -> Trial:
    """Try to stop an instance on local disks without a mirror, and to copy it to each target.

    It does not migrate, so migration tags do not count. An offline node, which has the data, and a
    forthcoming instance, which Ganeti does not move, rule out all targets.
    """
    trial = _to_primary(state, asked, targets, scope, force, migrates=False)
    if asked.forthcoming or state.columns.offline[state.pnode[asked.index]]:
        return replace(trial, codes=np.full_like(trial.codes, CODE[Fail.MIGRATION]))
    return trial


def _to_primary(
    state: State, asked: RequestedInstance, targets: Ints, scope: Bools, force: bool, migrates: bool
) -> Trial:
    """Try an instance that has a primary only on each target instead."""
    primary = int(state.pnode[asked.index])
    p = _row(primary)
    old_p, old_t = state.columns.take(p), state.columns.take(targets)
    tags, desires = affinity.tag_conflicts(state, asked), affinity.unmet_locations(state, asked)
    location = affinity.location_score(state, asked)
    new_p = node_rules.remove_primary(old_p, asked, tags[p], location + desires[p])
    forced = force or bool(old_p.offline[0])
    new_t, codes = node_rules.add_primary(old_t, asked, tags[targets], location + desires[targets], forced)
    if migrates:
        codes = affinity.migration_codes(state, primary, targets, codes)
    codes = placement_rules.codes(state, asked, codes, targets)
    touched = (NodeChange(p, old_p, new_p), NodeChange(targets, old_t, new_t))
    change = affinity.location_exclusion_change(state, asked, targets, scope)
    return Trial(asked, codes, targets, state.snode[[asked.index]], touched, change)


def replace_secondary(state: State, asked: RequestedInstance, targets: Ints, force: bool = False) -> Trial:
    """Try each target as the secondary of a mirrored instance."""
    primary, secondary = int(state.pnode[asked.index]), int(state.snode[asked.index])
    p, s = _row(primary), _row(secondary)
    old_p, old_s, old_t = (state.columns.take(rows) for rows in (p, s, targets))
    tags, desires = affinity.tag_conflicts(state, asked)[p], affinity.unmet_locations(state, asked)[p]
    bare_p = node_rules.remove_primary(old_p, asked, tags, affinity.location_score(state, asked) + desires)
    new_s = _without_secondary(state, old_s, asked, secondary, primary)
    forced = force or bool(old_s.offline[0])
    new_t, codes_t = _as_secondary(state, old_t, asked, primary, targets, forced)
    location = affinity.shared_locations(state, primary, targets) + desires
    new_p, codes_p = node_rules.add_primary(bare_p, asked, tags, location, force=True)
    touched = (NodeChange(p, old_p, new_p), NodeChange(s, old_s, new_s), NodeChange(targets, old_t, new_t))
    codes = first_reason(codes_t, codes_p, node_rules.copy_codes(old_p, asked))
    codes = placement_rules.codes(state, asked, codes, secondary=targets)
    return Trial(asked, codes, p, targets, touched)
