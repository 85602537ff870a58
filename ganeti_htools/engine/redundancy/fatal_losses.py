"""Losses that are fatal whatever room other nodes have: some instance cannot come back anywhere."""

from collections.abc import Callable

import numpy as np

from ganeti_htools.engine.redundancy.rule import DRBD, SURVIVES
from ganeti_htools.engine.rules.limits import SECONDARY
from ganeti_htools.engine.rules.resources import declared_limits
from ganeti_htools.engine.rules.storage_limits import disk_limits
from ganeti_htools.model.columns import NOWHERE, Bools, Ints, sorted_unique
from ganeti_htools.model.policy import Demand, violation
from ganeti_htools.model.state import State


def fatal_losses(state: State, settled: Bools, mirrored: Ints, scope: Bools) -> Bools:
    """The nodes with an instance that cannot come back anywhere.

    Only the ``settled`` instances (a mask) count; ``mirrored`` are the rows of those with a secondary.
    """
    columns, fatal = state.columns, np.zeros(len(state.group), np.bool_)
    fatal[state.pnode[mirrored[_held(state, mirrored)]]] = True
    fatal[state.pnode[settled & (state.template == DRBD) & (state.snode == NOWHERE)]] = True
    exclusive = columns.excl_stor[state.pnode[mirrored]] | columns.excl_stor[state.snode[mirrored]]
    for index in mirrored[exclusive].tolist():
        if state.instance(index).spindles is None:
            fatal[state.pnode[index]] = True
    return fatal | _against_policy(state, settled, scope)


def _held(state: State, mirrored: Ints) -> Bools:
    """Whether each mirrored instance cannot fail over: one of its nodes breaks a hard limit already."""
    columns, held = state.columns, np.zeros(len(mirrored), np.bool_)
    lost, partners = state.pnode[mirrored], state.snode[mirrored]
    for limit in declared_limits(columns.shape):
        if limit.of is None or limit.soft or limit.fixed:
            continue
        full = limit.broken_now(columns)
        if full.any():
            here = full & ~columns.offline if limit in disk_limits(columns.shape) else full
            here = here if SECONDARY in limit.roles else np.zeros_like(here)
            held |= (full[partners] | here[lost]) & state.wants[mirrored, limit.of]
    return held


def _against_policy(state: State, settled: Bools, scope: Bools) -> Bools:
    """The nodes with an instance to be created anew that the policy of its group refuses everywhere."""
    refused = np.zeros(len(state.group), np.bool_)
    recreated = np.flatnonzero(settled & (state.template != DRBD) & ~SURVIVES[state.template])
    recreated = recreated[recreated < len(state.figures.rows)]  # what is placed anew has been checked
    nodes, wants = state.pnode[recreated], state.figures.values["demand"][recreated]
    demands = list(state.figures.demands)
    keys = state.group[nodes] * len(demands) + wants
    rules: dict[int, list[Callable[[int], bool]]] = {}
    for group in sorted_unique(state.group[nodes]).tolist():
        kinds = sorted_unique(state.columns.excl_stor[scope & (state.group == group)]).tolist()
        rules[group] = [_refuses(state, group, kind, demands) for kind in kinds]
    for key in sorted_unique(keys).tolist():
        group, demand = divmod(key, len(demands))
        if all(refuses(demand) for refuses in rules[group]):
            refused[nodes[keys == key]] = True
    return refused


def _refuses(state: State, group: int, exclusive: bool, demands: list[Demand]) -> Callable[[int], bool]:
    """A function that tells whether the policy of a group refuses a demand; it remembers with the figures."""
    policy = state.policies[group]
    known = state.figures.verdicts.setdefault((policy, exclusive), {})

    def refuses(demand: int) -> bool:
        if demand not in known:
            known[demand] = violation(demands[demand], policy, exclusive) is not None
        return known[demand]

    return refuses
