"""Days in a simulated cluster under policies: load comes and goes, nodes go to sleep and wake up.

The clock jumps, so a day takes no longer than what is computed in it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import trio

from ganeti_htools.engine.redundancy.health import bad_nodes
from ganeti_htools.engine.squeezing.reserve import holds_n1
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Node
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.planning.squeezing import hsqueeze
from ganeti_htools.planning.squeezing.hsqueeze import SqueezeOptions
from ganeti_htools.planning.view import View, state_of
from ganeti_htools.simulator.jobs import Jobs
from ganeti_htools.simulator.world import World, initial_world
from htoolsd.config.policies import PolicySettings, SqueezeSettings
from htoolsd.policies.squeeze_plans import group_alone
from htoolsd.policies.verdict import PolicyDecision
from tests.support.policies_at_work import BEGINNING, Working, now, working

STANDARD = 2048  # MiB, the memory of a standard instance
SIZES = (1024, 2048, 2048, 4096)  # MiB
_POLICY = replace(DEFAULT_IPOLICY, std=replace(DEFAULT_IPOLICY.std, memory_size=STANDARD, cpu_count=1))


class Site(NamedTuple):
    """How large a cluster is: node groups, nodes of each, instances at the time of most load."""

    groups: int
    nodes: int
    instances: int

    def built(self) -> World:
        """Its nodes, without instances; at most load three quarters of the memory are taken."""
        memory = int(sum(SIZES) / len(SIZES) * self.instances / (self.groups * self.nodes) / 0.75)
        groups = tuple(Group(f"rack{at}", f"uuid{at}", ipolicy=_POLICY) for at in range(self.groups))
        nodes = tuple(
            Node(
                f"node{at}-{number}",
                f"uuid{at}",
                t_mem=float(memory + 1024),
                n_mem=1024,
                f_mem=memory,
                t_dsk=1e6,
                f_dsk=1 << 20,
                t_cpu=1000.0,
                master=(at, number) == (0, 0),
            )
            for at in range(self.groups)
            for number in range(self.nodes)
        )
        return initial_world(Cluster(groups, nodes, ()))


@dataclass
class Load:
    """Instances that come and go, so that their number follows the time of day, a walk, and noise.

    A new one goes to the node of its group that has most memory free; ``refused`` counts those for which none
    had enough.
    """

    site: Site
    random: Random
    noise: float = 0.03
    walk: float = 1.0
    count: int = 0
    refused: int = 0

    def wanted(self, hour: float) -> int:
        """How many instances there should be."""
        self.walk = min(1.05, max(0.85, self.walk * self.random.uniform(0.99, 1.01)))
        share = 0.7 - 0.3 * math.cos((hour - 2) / 24 * 2 * math.pi)
        return int(
            self.site.instances * share * self.walk * self.random.uniform(1 - self.noise, 1 + self.noise)
        )

    def changed(self, world: World, hour: float) -> World:
        """The world after some have gone, and others come."""
        rows, wanted = list(world.cluster.instances), self.wanted(hour)
        churn = max(1, len(rows) // 100)
        free = {node.name: node.f_mem for node in world.cluster.nodes}
        for _ in range(max(0, min(len(rows), len(rows) - wanted + churn))):
            gone = rows.pop(self.random.randrange(len(rows)))
            free[gone.pnode] += gone.mem
        usable = [
            node
            for node in world.cluster.nodes
            if node.name not in world.offline and node.name not in world.drained
        ]
        for _ in range(max(0, wanted - len(rows))):
            group, mem = f"uuid{self.random.randrange(self.site.groups)}", self.random.choice(SIZES)
            node = max((each for each in usable if each.group == group), key=lambda each: free[each.name])
            if free[node.name] < mem:
                self.refused += 1
                continue
            self.count += 1
            free[node.name] -= mem
            rows.append(_instance(f"web{self.count}", mem, node.name))
        nodes = tuple(replace(node, f_mem=free[node.name]) for node in world.cluster.nodes)
        return replace(world, cluster=replace(world.cluster, nodes=nodes, instances=tuple(rows)))


def _instance(name: str, mem: int, node: str) -> Instance:
    return Instance(
        name,
        mem,
        1024,
        (Disk(1024),),
        1,
        status=Status.RUNNING,
        pnode=node,
        snode=None,
        template=DiskTemplate.EXT,
    )


@dataclass
class Log:
    """What jobs did to a world: moves (when, which instance, MiB), nodes that went offline (True) or came
    back (when, which), and steps that broke what held before, in words.
    """

    moves: list[tuple[float, str, int]] = field(default_factory=list)
    power: list[tuple[float, str, bool]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    decisions: list[PolicyDecision] = field(default_factory=list)
    seen: list[tuple[PolicyDecision, Cluster | None]] = field(default_factory=list)  # with the cluster then
    node_hours: float = 0.0  # of nodes that were offline
    refused: int = 0

    @property
    def mib(self) -> int:
        """MiB that were copied."""
        return sum(mib for _, _, mib in self.moves)

    def note(self, before: World, after: World, reserve: SqueezeOptions) -> None:
        """A step."""
        was = {row.name: row.pnode for row in before.cluster.instances}
        moved = [row for row in after.cluster.instances if was.get(row.name, row.pnode) != row.pnode]
        self.moves += [(now(), row.name, row.mem) for row in moved]
        self.power += [(now(), name, name in after.offline) for name in after.offline ^ before.offline]
        switched = (after.offline ^ before.offline) | (after.drained ^ before.drained)
        nodes = switched | {row.pnode for row in moved}
        for group in {node.group for node in after.cluster.nodes if node.name in nodes}:
            (name,) = (row.name for row in after.cluster.groups if row.uuid == group)
            new = [each for each in _wrong(after, name, reserve) if each not in _wrong(before, name, reserve)]
            step = ", ".join([*(row.name for row in moved), *sorted(switched)])
            self.broken += [f"{step} at {now() - BEGINNING:.0f}: {each}" for each in new]


def _wrong(world: World, group: str, reserve: SqueezeOptions) -> Iterable[str]:
    """What is wrong with a group."""
    state = hsqueeze.state_of(group_alone(world.file_cluster(), group), reserve)
    everywhere = np.ones(len(state.group), np.bool_)
    if hsqueeze.lacks_resources(state, reserve):
        yield f"{group} lacks the reserve"
    state = state_of(group_alone(world.file_cluster(), group), View())
    if bad_nodes(state, everywhere).any() or not holds_n1(state, everywhere):
        yield f"{group} has lost N+1"


async def lived(
    directory: Path, site: Site, random: Random, days: float, pace: float = 900.0, **settings: PolicySettings
) -> Log:
    """Some days of a site under policies, and what came of them. Load changes every ``pace`` seconds.

    What a daemon does every few seconds is done as seldom as that, and nothing waits for the disk.
    """
    log, load, squeeze = Log(), Load(site, random), settings.get("squeeze", SqueezeSettings())
    assert isinstance(squeeze, SqueezeSettings)
    reserve = SqueezeOptions(
        minimal_resources=squeeze.minimal_resources, target_resources=squeeze.target_resources
    )

    class Watched(Jobs):
        """Jobs of which each step is noted. (What changes the load does not count.)"""

        def __setattr__(self, name: str, value: object) -> None:
            if name == "world" and hasattr(self, "world") and not getattr(self, "loading", False):
                assert isinstance(value, World)
                log.note(self.world, value, reserve)
            super().__setattr__(name, value)

    def noted(decision: PolicyDecision, cluster: Cluster | None) -> None:
        log.seen.append((decision, cluster))

    world = load.changed(site.built(), 0.0)
    with (
        patch("htoolsd.policies.coordinator._WATCH_SECONDS", pace / 4),
        patch("htoolsd.sync.storage_polls.PAUSE", pace),
        patch("os.fsync", lambda _file: None),
    ):
        async with working(
            directory, world=world, job_seconds=20.0, polls=pace / 3, jobs=Watched, heed=noted, **settings
        ) as daemon:
            await trio.sleep(pace / 2)  # so that what policies see is no older than in a daemon
            for step in range(1, int(days * 86400 / pace) + 1):
                await trio.sleep(pace)
                log.node_hours += len(daemon.luxid.jobs.world.offline) * pace / 3600
                _change(daemon, load, step * pace / 3600)
            log.decisions = daemon.decisions
    log.refused = load.refused
    return log


def _change(daemon: Working, load: Load, hour: float) -> None:
    jobs = daemon.luxid.jobs
    jobs.loading = True  # type: ignore[attr-defined]
    jobs.change(load.changed(jobs.world, hour))
    jobs.loading = False  # type: ignore[attr-defined]
