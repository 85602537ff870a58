"""A simulated Ganeti whose nodes can be powered down and up, and who has plans of hsqueeze carried out."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import trio

from ganeti_htools.backends import luxi
from ganeti_htools.execution.events import Event, News, Submitting
from ganeti_htools.execution.execute import execute
from ganeti_htools.execution.run import Run
from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.jobs import Patience
from ganeti_htools.luxi.opcodes import Opcode, Signature
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.plan import OnChange, Proposal, Tool, ToolOptions
from ganeti_htools.planning.squeezing import hsqueeze
from ganeti_htools.planning.squeezing.hsqueeze import SqueezeOptions
from ganeti_htools.simulator.world import World, initial_world, with_role
from tests.support import by_hand
from tests.support.simulated import Simulated
from tests.support.worlds import instance, node

LOOSE = SqueezeOptions(minimal_resources=0.0, target_resources=1.0)
TIGHT = SqueezeOptions(minimal_resources=43.0, target_resources=44.0)  # 5504 MiB


def world() -> World:
    """The master and three nodes with instances on external storage, all of which two of them can take."""
    hosts = {"boss": 2, "one": 2, "two": 1, "three": 1}
    nodes = (
        node(
            name,
            t_mem=8096.0,
            f_mem=8000 - 1000 * count,
            t_cpu=32.0,
            t_spindles=8,
            master=name == "boss",
        )
        for name, count in hosts.items()
    )
    rows = (
        instance(f"{name}-{row}", DiskTemplate.EXT, name)
        for name, count in hosts.items()
        for row in range(count)
    )
    start = initial_world(Cluster((Group("default", "uuid"),), tuple(nodes), tuple(rows)))
    return replace(start, addresses={name: f"address of {name}" for name in hosts})


def outgrown() -> Cluster:
    """The master, nearly full, and a smaller node, and a large one that is off. The first two would not be
    enough, the master and the large one are.
    """
    rows = [
        by_hand.instance(f"i{row}", DiskTemplate.EXT, "small" if row == 8 else "boss", mem=2000)
        for row in range(9)
    ]
    made = by_hand.cluster({"boss": 20_000, "small": 12_000, "large": 32_000}, rows)
    boss, small, large = made.nodes
    large = replace(large, offline=True, tags=("htools:standby:auto",))
    return replace(made, nodes=(replace(boss, master=True), small, large))


OUTGROWN = SqueezeOptions(minimal_resources=40.0)  # 5120 MiB


def asleep(cluster: Cluster, *names: str) -> World:
    """The same with some of its nodes off."""
    awake = tuple(replace(node, offline=False, powered=None) for node in cluster.nodes)
    start = initial_world(replace(cluster, nodes=awake))
    for name in names:
        start = with_role(start, name, offline=True, drained=False)
    return replace(
        start,
        silent=frozenset(names),
        off=frozenset(names),
        addresses={node.name: f"address of {node.name}" for node in awake},
    )


_proposals = dict[tuple[Cluster, str], Proposal]()


def _proposal(tool: Tool[Any, Any], cluster: Cluster, options: ToolOptions) -> Proposal:
    """Plan; plans of hsqueeze, which have no marks of their own, only once for the same cluster."""
    if tool is not hsqueeze.HSQUEEZE:
        return tool.propose(cluster, options, lambda _text: None)
    key = cluster, repr(options)
    if key not in _proposals:
        _proposals[key] = tool.propose(cluster, options, lambda _text: None)
    return _proposals[key]


@dataclass
class Caller:
    """Who has a plan of a tool carried out, hsqueeze if nothing else is said, and reacts to what happens
    meanwhile.
    """

    master: Simulated
    client: LuxiClient
    react: Callable[[Event], None] = lambda _event: None
    said: list[str] = field(default_factory=list)
    stop: trio.Event = field(default_factory=trio.Event)
    before: Cluster | None = None  # what is known of nodes that are off
    tool: Tool[Any, Any] = hsqueeze.HSQUEEZE

    async def read(self) -> Cluster:
        now = luxi.parse(await queries.whole_cluster(self.client))
        return now if self.before is None else hsqueeze.with_standby_data(now, self.before)

    async def tell(self, event: Event) -> None:
        self.react(event)

    async def answers(self, address: str) -> bool:
        """Whether the node daemon at an address does."""
        return address.removeprefix("address of ") not in self.world.silent

    async def squeeze(self, options: ToolOptions = LOOSE, on_change: OnChange = "replan") -> Run:
        """Plan and carry out."""
        proposal = _proposal(self.tool, await self.read(), options)
        signature = Signature("test", "a test", proposal.purpose, f"beef{len(self.master.states())}")
        run = Run(signature, proposal.jobs)
        check = proposal.review(on_change, lambda *texts: self.said.extend(texts))
        patience = Patience(answer=30, away=300, late=10)
        await execute(
            run, self.client, self.read, check, self.tell, self.stop, lambda: 1, patience, self.answers
        )
        return run

    async def cut_off(self, events: int, options: ToolOptions) -> bool:
        """Plan, and carry out until jobs have been submitted or have ended so often; whether that comes
        before the end. Jobs go on.
        """

        def count(event: Event, scope: trio.CancelScope) -> None:
            nonlocal events
            events -= not isinstance(event, News) or event.task.over
            if not events:
                scope.cancel()

        return await self._until(count, options)

    async def cut_off_unanswered(self, times: int, options: ToolOptions) -> bool:
        """The same until jobs have been submitted so often, and the last answer has not come."""

        def count(event: Event, scope: trio.CancelScope) -> None:
            nonlocal times
            times -= isinstance(event, Submitting)
            if not times:
                self.master.trouble.seconds = 2.0
                scope.deadline = trio.current_time() + 1.0

        return await self._until(count, options)

    async def _until(self, count: Callable[[Event, trio.CancelScope], None], options: ToolOptions) -> bool:
        with trio.CancelScope() as scope:
            self.react = lambda event: count(event, scope)
            await self.squeeze(options)
        self.react = lambda _event: None
        self.master.trouble.seconds = 0.0
        return scope.cancelled_caught

    async def settle(self) -> None:
        """Wait until no job is under way."""
        while not {"queued", "waiting", "running"}.isdisjoint(self.master.states()):
            await trio.sleep(1)

    @property
    def world(self) -> World:
        return self.master.jobs.world

    def done(self) -> list[list[Opcode]]:
        """What the jobs did that ended well, oldest first."""
        jobs = [job for job in self.master.jobs.unarchived() if job.state is JobStatus.SUCCESS]
        return [[{**op.opcode, "comment": "", "reason": []} for op in job.ops] for job in jobs]

    def tags(self, name: str) -> tuple[str, ...]:
        found = self.world.node(name)
        assert found is not None
        return found.tags

    def hosts(self) -> set[str]:
        return {row.pnode for row in self.world.cluster.instances}

    def power(self, how: str, *names: str) -> None:
        self.master.jobs.change(replace(self.world, **{how: frozenset(names)}))  # type: ignore[arg-type]


def titles(run: Run) -> list[str]:
    """Those of its jobs that make no moves."""
    return [task.job.title for task in run.tasks if task.job.step is None]
