"""Why the instance policy of a node's group refuses an instance (``gnt-cluster(8)``, ``--ipolicy-...``)."""

from collections.abc import Sequence

import numpy as np

from ganeti_htools.engine.rules.node_rules import CODE, FITS, Codes
from ganeti_htools.model.columns import Ints
from ganeti_htools.model.policy import Demand, violation
from ganeti_htools.model.state import RequestedInstance, State


def codes(state: State, asked: RequestedInstance, targets: Ints) -> Codes:
    """Why the instance policy of each target's group refuses the instance."""
    codes: Codes = codes_of(state, (asked.row.demand,), targets)[0]
    return codes


def codes_of(state: State, demands: Sequence[Demand], targets: Ints) -> Codes:
    """Why the policy of each target's group refuses instances with these demands: a row for each demand."""
    kinds = list(zip(state.group[targets].tolist(), state.columns.excl_stor[targets].tolist(), strict=True))
    codes = np.zeros((len(demands), len(kinds)), np.int8)
    for group, exclusive in set(kinds):
        reasons = [violation(demand, state.policies[group], exclusive) for demand in demands]
        column = [FITS if reason is None else CODE[reason] for reason in reasons]
        alike = np.array([kind == (group, exclusive) for kind in kinds])
        codes[:, alike] = np.array(column, np.int8)[:, np.newaxis]
    return codes
