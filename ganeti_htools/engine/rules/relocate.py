"""The moves there are: departures and arrivals in order, for many instances or many candidates at once.

A move of failovers and replaced secondaries leaves an instance with its own nodes in other roles, or with one
new node (``hbal(1)``). :func:`own_node_changes` computes the changes of its present nodes,
:func:`new_node_change` those of new nodes. Both use the rules in :mod:`.node_rules`, instance by instance.

Soft limits hold unless ``force`` is set, or the instance leaves a node that is lost. Rules of tags
(:mod:`.placement_rules`) always hold. If several reasons are against a move, the first in the order of its
arrivals is reported.
"""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from ganeti_htools.engine.rules import affinity, node_rules, placement_rules, placements, settling
from ganeti_htools.engine.rules.batches import Batch, NodeFacts, batch_of_one
from ganeti_htools.engine.rules.node_rules import CODE, FITS, Codes, first_reason
from ganeti_htools.engine.rules.trial import NodeChange, Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Ints
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail

_BARRED, _RULE = (np.int8(CODE[fail]) for fail in (Fail.MIGRATION, Fail.RULE))


def _coded(
    rule: Callable[..., tuple[Columns, Codes]], *arguments: Any, force: bool, lost: Any, **leniency: bool
) -> tuple[Columns, Codes]:
    """Apply a rule; instances with a lost node are judged with force and with ``leniency``."""
    number = np.count_nonzero(lost) if leniency or not force else 0
    if number and number == np.size(lost):
        return rule(*arguments, force=True, **leniency)
    new, codes = rule(*arguments, force=force)
    if number:
        codes = np.where(lost, rule(*arguments, force=True, **leniency)[1], codes)
    return new, codes


def _of_sets(figures: Ints, sets: Ints, nodes: Ints) -> Any:
    """Look up the figures of sets of tags on nodes; 0 if there is only the first set, which is empty."""
    return figures[sets, nodes] if len(figures) > 1 else 0


def _as_secondary(
    state: State, primary: Ints | None, secondary: Ints
) -> Callable[..., tuple[Columns, Codes]]:
    """Return the rule for secondaries (rows); an unknown primary has no instances in common with them."""
    memory: Any = 0 if primary is None else state.peers[primary, secondary]
    kept = () if primary is None else placements.class_peers(state, primary, secondary)

    def rule(
        columns: Columns, asked: RequestedInstance, force: bool, ignore_disk: bool = False
    ) -> tuple[Columns, Codes]:
        return node_rules.add_secondary(columns, asked, memory, force, ignore_disk, kept)

    return rule


def own_node_changes(
    facts: NodeFacts, batch: Batch, kinds: Collection[MoveKind], force: bool, new: Ints | None = None
) -> dict[MoveKind, tuple[list[NodeChange], Codes]]:
    """Compute the changes of primary and secondary (if any) when instances move, and the reasons against.

    The result has an entry for each kind of move; kinds share equal changes. ``new`` are rows of the new
    nodes, one for each instance. Without them, new nodes are assumed to have no instances and no location in
    common with the own nodes, and migration to new nodes is not checked.
    """
    state, asked = facts.state, batch.asked
    columns = state.columns
    p, s = state.pnode[batch.rows], state.snode[batch.rows]
    old_p = columns.take(p)
    lost = old_p.offline
    desired_p = _of_sets(facts.unmet, batch.desires, p)
    others = _of_sets(facts.others, batch.tags, p)
    located = bool(state.location_rows)
    together: Any = affinity.shared_locations(state, p, s) * (s != NOWHERE) if located else 0
    bare_p = node_rules.remove_primary(old_p, asked, others, together + desired_p)

    if not any(kind.mirrored for kind in kinds):  # an instance with mirrors may have lost its secondary
        change, free = [NodeChange(p, old_p, bare_p)], np.full(len(p), FITS, np.int8)
        return {kind: (change, _passing(state, kind, p, s, new, free)) for kind in kinds}
    old_s = columns.take(s)
    sources = node_rules.copy_codes(old_p, asked), node_rules.copy_codes(old_s, asked)
    bare_s = node_rules.remove_secondary(old_s, asked, *facts.kept_without(batch, p, s))
    conflicts = _of_sets(facts.present, batch.tags, s)
    desired_s = _of_sets(facts.unmet, batch.desires, s)
    beside = {"primary": p, "new": new} if located else {}
    leaves_p, leaves_s = NodeChange(p, old_p, bare_p), NodeChange(s, old_s, bare_s)
    known: dict[str | None, tuple[NodeChange, Codes]] = {}

    def takes_over(other: str) -> tuple[NodeChange, Codes]:
        """Compute the secondary's change to primary; ``other`` names the instance's other node then."""
        node = beside.get(other)
        key = None if node is None else other
        if key not in known:
            location = desired_s if node is None else desired_s + affinity.shared_locations(state, s, node)
            arguments = bare_s, asked, conflicts, location
            new_s, codes = _coded(node_rules.add_primary, *arguments, force=force, lost=lost)
            known[key] = NodeChange(s, old_s, new_s), codes
        return known[key]

    result = {}
    for kind in kinds:
        primary, secondary = leaves_p, leaves_s
        match kind.after:
            case "secondary", "primary":
                secondary, codes = takes_over("primary")
                rule = _as_secondary(state, s, p)
                new_p, again = _coded(rule, bare_p, asked, force=force, lost=lost, ignore_disk=True)
                primary = NodeChange(p, old_p, new_p)
                codes = first_reason(codes, again)
            case "primary", _:
                location = desired_p
                if located and new is not None:
                    location = desired_p + affinity.shared_locations(state, p, new)
                new_p, codes = node_rules.add_primary(bare_p, asked, others, location, force=True)
                primary = NodeChange(p, old_p, new_p)
            case _, "primary":
                rule = _as_secondary(state, new, p)
                new_p, codes = _coded(rule, bare_p, asked, force=force, lost=old_s.offline)
                primary = NodeChange(p, old_p, new_p)
            case _, "secondary":
                meanwhile, codes = takes_over("none")
                back = node_rules.remove_primary(meanwhile.new, asked, conflicts, desired_s)
                rule = _as_secondary(state, new, s)
                new_s, again = _coded(rule, back, asked, force=force, lost=lost)
                secondary = NodeChange(s, old_s, new_s)
                codes = first_reason(codes, again)
            case _:
                secondary, codes = takes_over("new")
        if (source := kind.copied_from(*sources)) is not None:
            codes = first_reason(codes, source)
        result[kind] = [primary, secondary], _passing(state, kind, p, s, new, codes)
    return result


def _passing(state: State, kind: MoveKind, p: Ints, s: Ints, new: Ints | None, codes: Codes) -> Codes:
    """Return the codes, or the code of a forbidden migration, which precedes all other reasons."""
    if state.allowed_migrations is None:
        return codes
    return np.where(migrates(state, kind, p, s, new), codes, _BARRED)


def migrates(state: State, kind: MoveKind, p: Ints, s: Ints, new: Ints | None) -> Any:
    """Whether instances may migrate as such moves require; unknown nodes are no obstacle."""
    good: Any = np.True_
    if state.allowed_migrations is not None:
        for source, target in kind.migrations(p, s, new):
            if target is not None:
                good = good & state.allowed_migrations[source, target]
    return good


def obeys(state: State, kind: MoveKind, rows: Ints, p: Ints, s: Ints, new: Ints | None) -> Any:
    """Whether moves of instances (rows) on nodes ``p`` and ``s`` break no rule of tags anew, at no step."""
    if state.rules is None:
        return np.True_
    of = state.rules.instances.take(rows)
    good = placement_rules.allows(state.rules, of, p, s, *kind.nodes(p, s, new))
    if kind.passes_secondary:  # meanwhile the secondary is the primary
        good = good & placement_rules.allows(state.rules, of, p, s, s)
    return good


def leave_lost(state: State, rows: Ints, kind: MoveKind) -> Bools:
    """Find the instances that leave an offline node for the new one: soft limits do not count for them."""
    if kind.after[1] == "primary":
        return np.zeros(rows.shape, np.bool_)
    left = state.snode if kind.keeps_primary else state.pnode
    offline: Bools = state.columns.offline[left[rows]]
    return offline


def new_node_change(
    facts: NodeFacts, batch: Batch, kind: MoveKind, force: bool, new: Ints, apart: bool = False
) -> tuple[NodeChange, Codes]:
    """Compute the changes of the new nodes (rows), and the reasons why the instances must not come.

    Arrays broadcast against each other. With ``apart``, new nodes are assumed to have no instances and no
    location in common with the own nodes.
    """
    state, asked = facts.state, batch.asked
    old = state.columns.take(new)
    if apart:
        if kind.to_primary:
            conflicts = _of_sets(facts.present, batch.tags, new)
            location = _of_sets(facts.unmet, batch.desires, new)
            came, codes = node_rules.add_primary(old, asked, conflicts, location, force=force)
        else:
            came, codes = node_rules.add_secondary(old, asked, 0, force=force)
        return NodeChange(new, old, came), codes
    p, s = state.pnode[batch.rows], state.snode[batch.rows]
    lost = leave_lost(state, batch.rows, kind)
    if kind.to_primary:
        location = _of_sets(facts.unmet, batch.desires, new)
        if state.location_rows and not kind.mirrored:
            location = location + affinity.shared_locations(state, p, s) * (s != NOWHERE)
        elif state.location_rows:
            other = p if kind.after[1] == "primary" else s
            location = location + affinity.shared_locations(state, other, new)
        arguments = old, asked, _of_sets(facts.present, batch.tags, new), location
        came, codes = _coded(node_rules.add_primary, *arguments, force=force, lost=lost)
    else:
        rule = _as_secondary(state, p if kind.keeps_primary else s, new)
        came, codes = _coded(rule, old, asked, force=force, lost=lost)
    return NodeChange(new, old, came), codes


def move_pairs(
    state: State, asked: RequestedInstance, targets: Ints, scope: Bools, force: bool = False
) -> tuple[Trial, list[Codes]]:
    """Try to move a mirrored instance off both its nodes, to each pair of targets (primaries by secondaries).

    The new primary first becomes secondary, then takes over, then gets a secondary. Returns the trial, and
    the codes of these three steps. Precondition: the primary is online; otherwise the instance fails over
    before.
    """
    batch, facts = batch_of_one(state, asked)
    p, s, rows = state.pnode[batch.rows], state.snode[batch.rows], targets[:, np.newaxis]
    replaces, takes_over = MoveKind.REPLACE_SECONDARY, MoveKind.REPLACE_AND_FAILOVER
    found = own_node_changes(facts, batch, [replaces, MoveKind.FAILOVER_AND_REPLACE], force)
    ((_, leaves_s), again), ((leaves_p, _), _) = found.values()
    # The new primary as secondary.
    _, codes = new_node_change(facts, batch, replaces, force, rows)
    first = placement_rules.rule_codes(state, asked, first_reason(codes, again), secondary=rows, passing=True)
    # Roles exchanged.
    came, codes = new_node_change(facts, batch, takes_over, force, rows)
    _, again = _as_secondary(state, rows, p)(leaves_p.new, asked, force)
    codes = _passing(state, takes_over, p, s, rows, first_reason(codes, again))
    second = placement_rules.rule_codes(state, asked, codes, rows)
    # The final secondary.
    old = state.columns.take(targets)
    new_s, codes = _as_secondary(state, rows, targets)(old, asked, force)
    location = _of_sets(facts.unmet, batch.desires, rows)
    if state.location_rows:
        location = location + affinity.shared_locations(state, rows, targets)
    tags = _of_sets(facts.present, batch.tags, rows)
    new_p, again = node_rules.add_primary(came.old, asked, tags, location, force=True)
    codes = first_reason(codes, again, node_rules.copy_codes(came.old, asked))
    third = placement_rules.rule_codes(state, asked, codes, secondary=targets)
    touched = leaves_p, leaves_s, NodeChange(rows, came.old, new_p), NodeChange(targets, old, new_s)
    change = affinity.location_exclusion_change(state, asked, rows, scope)
    steps = [first, second, third]
    return Trial(asked, first_reason(*steps), rows, targets, touched, change), steps


def nodes_after(state: State, batch: Batch, kind: MoveKind, new: Ints | None) -> tuple[Ints, Ints]:
    """Return the rows of primary and secondary after the move."""
    p, s = state.pnode[batch.rows], state.snode[batch.rows]
    after: tuple[Ints, Ints] = kind.nodes(p, s, new)
    return after


def relocate(
    facts: NodeFacts, batch: Batch, kind: MoveKind, force: bool, new: Ints | None
) -> tuple[list[NodeChange], Codes]:
    """Try to move instances, each to its own new node: the changes of all nodes, and the reasons against."""
    state = facts.state
    p, s = state.pnode[batch.rows], state.snode[batch.rows]
    touched, codes = own_node_changes(facts, batch, [kind], force, new)[kind]
    if new is not None:
        came, reasons = new_node_change(facts, batch, kind, force, new)
        touched = [*touched, came]
        first = (reasons, codes) if kind.operations[0].takes_node else (codes, reasons)
        codes = _passing(state, kind, p, s, new, first_reason(*first))
    if state.rules is not None:
        codes = np.where(obeys(state, kind, batch.rows, p, s, new), codes, _RULE)
    return touched, codes


def move(
    state: State,
    asked: RequestedInstance,
    kind: MoveKind,
    new: Ints | None = None,
    scope: Bools | None = None,
    force: bool = False,
) -> Trial:
    """Try to move one instance to each new node (rows; None if it exchanges the roles of its nodes).

    ``scope`` (a mask) are the nodes that count in the location exclusion score, by default all.

    An instance on local disks without a mirror is stopped and copied. Its offline node, which has the data,
    and a forthcoming instance, which Ganeti does not move, rule out all targets.
    """
    batch, facts = batch_of_one(state, asked)
    touched, codes = relocate(facts, batch, kind, force, new)
    if kind is MoveKind.MOVE and (asked.forthcoming or state.columns.offline[state.pnode[asked.index]]):
        codes = np.full_like(codes, _BARRED)
    p, s = nodes_after(state, batch, kind, new)
    scope = state.everywhere if scope is None else scope
    change = 0.0 if kind.keeps_primary else affinity.location_exclusion_change(state, asked, p, scope)
    return Trial(asked, codes, p, s, tuple(touched), change)


def try_move(facts: NodeFacts, batch: Batch, member: int, kind: MoveKind, node: int, force: bool) -> Trial:
    """Try to move one member to a new node (a row, NOWHERE for a failover); ready to be
    settled if it fits.
    """
    batch, new = batch.take(np.array([member])), None if node == NOWHERE else np.array([node])
    touched, codes = relocate(facts, batch, kind, force, new)
    asked = facts.state.instance(int(batch.rows[0]))
    return Trial(asked, codes, *nodes_after(facts.state, batch, kind, new), tuple(touched))


def settle_and_refresh(facts: NodeFacts, trial: Trial) -> None:
    """Make a move that was tried, in place."""
    settling.settle(facts.state, trial)
    facts.refresh(np.array([int(node.rows[0]) for node in trial.changes]))


def location_exclusion_of_moves(
    facts: NodeFacts, batch: Batch, kind: MoveKind, new: Ints | None, scope: Bools
) -> Any:
    state = facts.state
    if kind.keeps_primary or not state.location_rows or batch.asked.forthcoming:
        return 0.0
    tagged = np.flatnonzero(batch.tags)
    if not len(tagged):
        return 0.0
    change = np.zeros(len(batch.rows))
    goal = nodes_after(state, batch, kind, new)[0]
    for row in sorted(set(batch.rows[tagged].tolist())):
        which = np.flatnonzero(batch.rows == row)
        change[which] = affinity.location_exclusion_change(state, state.instance(row), goal[which], scope)
    return change
