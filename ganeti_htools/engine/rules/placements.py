"""Allocations, each tried on all candidates at once.

``targets`` are rows of nodes, the candidates. ``scope`` (a mask) are the nodes that count in the location
exclusion score. Soft limits hold unless ``force`` is set. Rules of tags (:mod:`.placement_rules`) always
hold.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ganeti_htools.engine.rules import affinity, instance_policy, node_rules, placement_rules
from ganeti_htools.engine.rules.node_rules import first_reason
from ganeti_htools.engine.rules.trial import NodeChange, Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.state import RequestedInstance, State


def class_peers(state: State, primary: Any, secondary: Any) -> list[Any]:
    """Return what secondaries keep free of each custom class for primaries (rows that broadcast)."""
    return [peers[primary, secondary] for peers in state.class_peers]


def allocate_one(
    state: State, asked: RequestedInstance, targets: Ints, scope: Bools, force: bool = False
) -> Trial:
    """Try a new instance, or one to be recreated, on each target."""
    fresh = replace(asked, index=NOWHERE)
    old = state.columns.take(targets)
    conflicts = affinity.tag_conflicts(state, fresh)[targets]
    location = affinity.unmet_locations(state, asked)[targets]
    new, codes = node_rules.add_primary(old, asked, conflicts, location, force)
    codes = first_reason(instance_policy.policy_codes(state, asked, targets), codes)
    codes = placement_rules.rule_codes(state, asked, codes, targets)
    change = affinity.location_exclusion_change(state, fresh, targets, scope)
    return Trial(fresh, codes, targets, np.array([NOWHERE]), (NodeChange(targets, old, new),), change)


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
    scope = state.everywhere
    fresh = replace(asked, index=NOWHERE)
    old_p, old_s = state.columns.take(primaries), state.columns.take(secondaries)
    location: Any = affinity.unmet_locations(state, asked)[primaries]
    if state.location_rows:
        location = location + affinity.shared_locations(state, primaries, secondaries)
    conflicts = affinity.tag_conflicts(state, fresh)[primaries]
    new_p, codes_p = node_rules.add_primary(old_p, asked, conflicts, location, force)
    codes_p = first_reason(
        instance_policy.policy_codes(state, asked, primaries.ravel()).reshape(primaries.shape), codes_p
    )
    kept = class_peers(state, primaries, secondaries)
    new_s, codes_s = node_rules.add_secondary(old_s, asked, peer_mem, peers=kept)
    touched = (NodeChange(primaries, old_p, new_p), NodeChange(secondaries, old_s, new_s))
    change = affinity.location_exclusion_change(state, fresh, primaries, scope)
    codes = placement_rules.rule_codes(state, asked, first_reason(codes_p, codes_s), primaries, secondaries)
    return Trial(fresh, codes, primaries, secondaries, touched, change)
