"""Nodes that fail N+1 and the instances on them, as Ganeti's tools count them (``hbal(1)``, ``hscan(1)``)."""

from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.state import State


def bad_nodes(state: State, scope: Bools) -> Bools:
    """Online nodes in scope with less memory free than they have to keep for one that fails."""
    bad: Bools = scope & state.columns.fail_n1 & ~state.columns.offline
    return bad


def bad_instances(state: State, scope: Bools) -> Bools:
    """Instances with one of the bad nodes."""
    bad = bad_nodes(state, scope)
    found: Bools = (bad[state.pnode] | (bad[state.snode] & (state.snode != NOWHERE))) & ~state.forthcoming
    return found
