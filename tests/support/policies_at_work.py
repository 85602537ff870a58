"""Policies at work on a Ganeti in memory, under a clock that jumps."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.simulator.jobs import Jobs
from ganeti_htools.simulator.world import World, initial_world
from htoolsd.config.policies import PolicySettings
from htoolsd.config.settings import Settings
from htoolsd.events import DaemonEvent
from htoolsd.plans.plan import Plan
from htoolsd.plans.plans import Plans
from htoolsd.policies.coordinator import Policies
from htoolsd.policies.verdict import PolicyDecision
from htoolsd.sync.sync import Sync
from htoolsd.threads import Computations
from tests.support.memory_ganeti import MemoryGaneti, following, ganeti
from tests.support.settings import settings, unjudged
from tests.support.worlds import uneven

BEGINNING = time.time()  # when trio's clock is at 0


def now() -> float:
    """The time of day by trio's clock."""
    return BEGINNING + trio.current_time()


class _Clocked(Policies):
    def now(self) -> float:
        return now()


@dataclass
class Working:
    """Policies of a daemon, and what they have decided."""

    luxid: MemoryGaneti
    sync: Sync
    plans: Plans
    policies: Policies
    settings: Settings
    path: Path
    scope: trio.CancelScope
    decisions: list[PolicyDecision] = field(default_factory=list)

    def end(self) -> None:
        """End plans and policies at once."""
        self.scope.cancel()

    async def decided(self, name: str = "rebalance") -> PolicyDecision:
        """The next decision after the policy was asked for one."""
        count = len(self.decisions)
        self.policies.request(name, "asked")
        return await self.next(count)

    async def next(self, count: int) -> PolicyDecision:
        """The decision after so many."""
        while len(self.decisions) <= count:
            await trio.sleep(1)
        return self.decisions[count]

    async def over(self) -> Plan:
        """The newest plan, once it has ended."""
        plan = list(self.plans.all)[-1]
        while plan.state.going:
            await plan.news.wait()
        return plan

    async def settled(self) -> Plan:
        """The newest plan, once it has ended and the daemon has seen what it did."""
        plan = await self.over()
        await trio.sleep(60)
        await self.sync.poll_all()
        return plan

    @property
    def submitted(self) -> int:
        """How many jobs there are."""
        return len(list(self.luxid.jobs.unarchived()))

    async def explain(self, name: str) -> dict[str, Any]:
        """What a policy would do now."""
        return await self.policies.explain(name, Computations())

    def told(self, name: str = "rebalance") -> Mapping[str, Any]:
        """What is told of a policy."""
        return {each["name"]: each for each in self.policies.status()}[name]


@asynccontextmanager
async def working(
    directory: Path,
    *,
    world: World | None = None,
    job_seconds: float = 1.0,
    jobs: type[Jobs] = Jobs,
    **options: Any,
) -> AsyncIterator[Working]:
    """Policies of a daemon that knows a cluster, usually one in which everything is on one node.

    Options are those of ``working_on``.
    """
    async with (
        ganeti(world or initial_world(uneven()), job_seconds, jobs) as luxid,
        working_on(luxid, directory, **options) as daemon,
    ):
        yield daemon


@asynccontextmanager
async def working_on(
    luxid: MemoryGaneti,
    directory: Path,
    *,
    polls: float = 30.0,
    heed: Callable[[PolicyDecision, Cluster | None], None] = lambda _decision, _cluster: None,
    **policy_settings: PolicySettings,
) -> AsyncIterator[Working]:
    """Policies of a daemon with this state directory.

    ``heed`` is told of each decision, and of the cluster as it was known then. Policies without settings are
    off.
    """
    async with following(luxid, polls, max(polls, 300)) as sync:

        class Decisions(list[PolicyDecision]):
            def note(self, event: DaemonEvent) -> None:
                if isinstance(event, PolicyDecision):
                    self.append(event)
                    heed(event, sync.model.cluster)

        decisions = Decisions()
        plans = Plans(str(directory / "plans"), sync, sync.events, unjudged())
        path, known = directory / "policies.json", settings(**policy_settings)
        policies = _Clocked(str(path), sync, plans, known, sync.events)
        sync.events.follow(plans, policies, decisions)
        scope = trio.CancelScope()

        async def run(*, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            with scope:
                async with trio.open_nursery() as nursery:
                    await nursery.start(plans.run)
                    task_status.started()
                    nursery.start_soon(policies.run)

        await sync.poll_all()
        async with trio.open_nursery() as nursery:
            await nursery.start(run)
            await trio.sleep(1)
            yield Working(luxid, sync, plans, policies, known, path, scope, decisions)
            nursery.cancel_scope.cancel()
