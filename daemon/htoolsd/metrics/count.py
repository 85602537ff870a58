"""Expensive figures of node groups, work of the helper."""

import json
import random
from collections.abc import Iterator

import numpy as np

from ganeti_htools import machine
from ganeti_htools.commandline.instances import requested_instances
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.engine.balancing.balance import rebalance, score_of
from ganeti_htools.engine.capacity.counting import check_enough, standard
from ganeti_htools.engine.capacity.scope import chosen_scope
from ganeti_htools.engine.redundancy.health import groups
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.errors import HtoolsError, RequestFailed
from ganeti_htools.model.options import BalancingOptions, PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.planning import view
from ganeti_htools.planning.view import View


def work(cluster: Cluster) -> None:
    """Print a line of JSON for each figure of a node group as soon as it is known.

    A cluster without standard instances has no counts.
    """
    for figure in figures(cluster):
        print(json.dumps(figure), flush=True)


def figures(cluster: Cluster) -> Iterator[tuple[str, str, float]]:
    """Yield figures of node groups: the group's name, the name of the figure, its value."""
    alone = group_states(cluster)
    for name, state in alone.items():
        try:
            yield name, "free_instances", free_instances(state)
        except HtoolsError:  # the cluster enables no disk template, for example
            break
    for name, state in alone.items():
        yield name, "balanced_score", balanced_score(state)


def group_states(cluster: Cluster) -> dict[str, State]:
    """Return the state of each node group by itself, in a random order.

    Where the time is too short, it must not always be too short for the same groups.
    """
    whole = view.state_of(cluster, View())
    rows = list(groups(whole))
    random.Random(machine.random_bytes(8)).shuffle(rows)
    return {cluster.groups[row].name: _group_state(whole, row) for row in rows}


def free_instances(state: State) -> int:
    """Return how many standard instances fit, as ``hspace`` without options counts. Raises HtoolsError."""
    _, (kind, sizes) = requested_instances(state, CommandLine())
    scope = chosen_scope(state, PlacementOptions())
    if scope.closed:
        return 0
    try:
        check_enough(state, kind.template, scope.nodes)
    except RequestFailed:
        return 0
    return standard(state, kind, sizes[0], scope, None).placed


def balanced_score(state: State) -> float:
    """Return the score that ``hbal`` without options reaches."""
    scope = np.ones(len(state.group), np.bool_)
    after, _ = rebalance(state, scope, BalancingOptions(), view.movable(state, View(), sets=True))
    return score_of(after, scope)


def _group_state(whole: State, group: int) -> State:
    """Return the nodes of a group (row), with the instances that have all their nodes in the group."""
    scope = whole.group == group
    here = scope[whole.pnode] & ((whole.snode == NOWHERE) | scope[whole.snode])
    return whole.part(np.flatnonzero(scope), np.flatnonzero(here))
