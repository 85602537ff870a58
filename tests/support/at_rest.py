"""Clusters whose nodes are powered down and up until nothing is left to do."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np

from ganeti_htools.engine.squeezing import squeeze
from ganeti_htools.engine.squeezing.power_plan import Action, AllowedMoves, PowerPlan, Wishes
from ganeti_htools.model.cluster import Cluster, Disk, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import STANDBY
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.squeezing import hsqueeze, standby
from tests.support.clusters import Shape

TEMPLATES = {
    AllowedMoves.POOLS: {"ext": 6, "sharedfile": 2, "drbd": 1},
    AllowedMoves.DRBD: {"drbd": 3, "ext": 3, "diskless": 1},
    AllowedMoves.ALL: {"ext": 4, "drbd": 2, "plain": 2, "file": 1},
}


def used(cluster: Cluster) -> Counter[str]:
    """What instances that run use (MiB), by node."""
    memory = Counter[str]()
    for row in cluster.instances:
        memory[row.pnode] += row.mem if row.uses_memory else 0
    return memory


def after(state: State, found: PowerPlan) -> Cluster:
    """The cluster as Ganeti tells it once a plan has been carried out: nodes that are off report nothing."""
    done = found.state.to_cluster()
    was, now = used(state.cluster), used(done)
    down = {row for phase in found.phases if phase.action is Action.OFFLINE for row in phase.nodes}
    nodes = list(done.nodes)
    for row, node in enumerate(nodes):
        read = state.cluster.nodes[row]
        node = replace(node, f_mem=read.f_mem + was[node.name] - now[node.name])
        if row in down:
            node = replace(node, tags=(*node.tags, f"{STANDBY}auto"))
        off = node.offline and any(tag.startswith(STANDBY) for tag in node.tags)
        nodes[row] = (
            replace(node, t_mem=0.0, n_mem=0, f_mem=0, t_dsk=0.0, f_dsk=0, t_cpu=0.0, n_cpu=0, storage=None)
            if off
            else node
        )
    return replace(done, nodes=tuple(nodes))


def at_rest(
    told: Cluster, before: Cluster, wanted: tuple[Instance, Instance], allowed: AllowedMoves
) -> tuple[Cluster, list[Action]]:
    """Run again and again with the same load until nothing is done: the cluster, and what was done."""
    actions = list[Action]()
    while len(actions) < 4:
        state = derive(standby.with_standby_figures(hsqueeze.with_standby_data(told, before)))
        everyone, groups = np.ones(len(state.pnode), np.bool_), len(state.policies)
        minimum, target = ([each] * groups for each in wanted)
        found = squeeze.plan(state, minimum, target, everyone, wishes=Wishes(allowed=allowed))
        if not found.nodes and not found.steps:
            break
        assert np.array_equal(state.group[found.state.pnode], state.group[state.pnode])
        actions.append(found.action)
        told = after(state, found)
    return told, actions


def mixed(rng: random.Random, allowed: AllowedMoves, groups: int = 1) -> Shape:
    """A small cluster, some of whose instances are on storage that has to be copied."""
    return Shape(
        nodes=rng.randint(4, 8),
        instances=rng.randint(2, 16),
        groups=groups,
        templates=TEMPLATES[allowed],
        fill=rng.choice((0.15, 0.3, 0.5)),
        down=rng.choice((0.0, 0.3)),
    )


def sized(allowed: AllowedMoves, mem: int) -> Instance:
    """What is to stay free where these instances may move."""
    if allowed is AllowedMoves.POOLS:
        return Instance("wanted", mem, 0, (Disk(0),), 1, auto_balance=False, template=DiskTemplate.EXT)
    return Instance("wanted", mem, 1024, (Disk(1024),), 1, auto_balance=False, template=DiskTemplate.PLAIN)
