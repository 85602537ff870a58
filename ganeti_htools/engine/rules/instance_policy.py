"""Refusals by the instance policy of a node's group (``gnt-cluster(8)``, ``--ipolicy-...``)."""

from collections.abc import Sequence

import numpy as np

from ganeti_htools.engine.rules.node_rules import CODE, FITS, Codes
from ganeti_htools.model.columns import Ints
from ganeti_htools.model.policy import Demand, violation
from ganeti_htools.model.state import RequestedInstance, State


def policy_codes(state: State, asked: RequestedInstance, targets: Ints) -> Codes:
    """Find the reason why the instance policy of each target's group refuses the instance."""
    codes: Codes = codes_of(state, (asked.row.demand,), targets)[0]
    return codes


def codes_of(state: State, demands: Sequence[Demand], targets: Ints) -> Codes:
    """Find the reasons for instances with these demands: a row for each demand, a column for each target."""
    kinds = list(zip(state.group[targets].tolist(), state.columns.excl_stor[targets].tolist(), strict=True))
    codes = np.zeros((len(demands), len(kinds)), np.int8)
    for group, exclusive in set(kinds):
        reasons = [violation(demand, state.policies[group], exclusive) for demand in demands]
        column = [FITS if reason is None else CODE[reason] for reason in reasons]
        alike = np.array([kind == (group, exclusive) for kind in kinds])
        codes[:, alike] = np.array(column, np.int8)[:, np.newaxis]
    return codes
