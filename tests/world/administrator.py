"""The administrator: what people do to a cluster, by seed. A day has some seventy of these."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import trio

from ganeti_htools.model.node_after import node_after
from ganeti_htools.simulator.world import World as Cluster
from ganeti_htools.simulator.world import lose_node, restore_node
from tests.world.callers import Caller

PAUSE = 1200.0  # seconds between two actions, on average


class Administrator:
    """One person at the shell."""

    def __init__(self, world: Any) -> None:
        self.world, self.ganeti = world, world.ganeti
        self.chance: Random = world.chance("administrator")
        self._caller = Caller(world)
        self._names = 0

    @property
    def _host(self) -> Any:
        return self.world.hosts[self.ganeti.state.master]

    @property
    def _cluster(self) -> Cluster:
        state: Cluster = self.ganeti.state
        return state

    def _node(self, *sets: frozenset[str]) -> str | None:
        """Choose a node in all of these sets; without sets, one in use that is no host of a daemon."""
        out = self._cluster.offline | self._cluster.drained | self._cluster.silent
        names = sorted(
            node.name
            for node in self._cluster.cluster.nodes
            if (all(node.name in each for each in sets) if sets else node.name not in out)
            and node.name not in self.world.hosts
            and not any(tag.startswith("htools:maintenance") for tag in node.tags)
        )
        return self.chance.choice(names) if names else None

    async def remove(self) -> None:
        """Remove some instances."""
        rows = self._cluster.cluster.instances
        for row in self.chance.sample(rows, min(len(rows), self.chance.choice((1, 1, 5)))):
            self.ganeti.change("gnt-instance", without(self._cluster, row.name))

    async def rename(self) -> None:
        """Rename an instance."""
        rows = self._cluster.cluster.instances
        if not rows:
            return
        self._names += 1
        row, name = self.chance.choice(rows), f"renamed{self._names}.example.org"
        renamed = tuple(replace(each, name=name) if each is row else each for each in rows)
        cluster = replace(self._cluster.cluster, instances=renamed)
        self.ganeti.change("gnt-instance", replace(self._cluster, cluster=cluster))

    async def drain(self) -> None:
        """Drain a node for some hours."""
        if name := self._node():
            self.ganeti.submit("gnt-node", role(name, drained=True))
            self.world.nursery.start_soon(self._undrain, name, self.chance.uniform(600, 7200))

    async def _undrain(self, name: str, seconds: float) -> None:
        await trio.sleep(seconds)
        self.ganeti.submit("gnt-node", role(name, drained=False))

    async def fail(self) -> None:
        """A node vanishes. Somebody sets it offline, sooner or later, and repairs it."""
        if (name := self._node()) and len(self._cluster.silent) < 2:
            self.ganeti.change("power", lose_node(self._cluster, name))
            self.world.nursery.start_soon(self._repair, name)

    async def _repair(self, name: str) -> None:
        if self.chance.random() < 0.6:
            await trio.sleep(self.chance.uniform(60, 7200))
            self.ganeti.submit("gnt-node", role(name, offline=True))
        await trio.sleep(self.chance.uniform(600, 20000))
        self.ganeti.change("power", restore_node(self._cluster, name))
        if name in self._cluster.offline:
            self.ganeti.submit("gnt-node", role(name, offline=False))

    async def maintain(self) -> None:
        """Begin the maintenance of a node, and end it after some hours."""
        if name := self._node():
            options = {"action": "start", "nodes": [name], "empty": self.chance.random() < 0.5}
            if await self._carry_out("hmaintain", options):
                self.world.nursery.start_soon(self._end_maintenance, name, self.chance.uniform(3600, 20000))

    async def _end_maintenance(self, name: str, seconds: float) -> None:
        for _ in range(20):
            await trio.sleep(seconds)
            node = self._cluster.node(name)
            if node is None or not node.in_maintenance:
                return
            await self._carry_out("hmaintain", {"action": "end", "nodes": [name], "take_over": True})
            seconds = 1800

    async def balance(self) -> None:
        """Balance, squeeze or regroup through the daemon; now and then cancel the plan, and resume it."""
        tool, options = self.chance.choice(
            (
                ("hbal", {}),
                ("hbal", {"min_gain": 0.001}),
                ("hsqueeze", {}),
                ("hsqueeze", {"allow_drbd": True}),
                ("hregroup", {}),
            )
        )
        plan = await self._carry_out(tool, options)
        if plan and self.chance.random() < 0.3:
            await trio.sleep(self.chance.uniform(0, 30))
            self._interfere(plan)
        elif plan and self.chance.random() < 0.4:
            await trio.sleep(self.chance.uniform(0, 120))
            now = self.chance.random() < 0.5
            if await self._caller.call(self._host, "cancel", plan=plan["id"], now=now):
                await trio.sleep(self.chance.uniform(0, 600))
                resumed = await self._caller.call(self._host, "resume", plan=plan["id"])
                if resumed:
                    await self._caller.call(self._host, "execute", plan=resumed["id"])

    def _interfere(self, plan: Any) -> None:
        """Take away the instance or the node of the last move of a plan."""
        jobs = [job for jobs in plan["execution"]["not_submitted"] for job in jobs if job["instance"]]
        if jobs and self.chance.random() < 0.5:
            self.ganeti.change("gnt-instance", without(self._cluster, jobs[-1]["instance"]))
        elif jobs and (name := jobs[-1]["to"][-1]) not in self.world.hosts:
            self.ganeti.submit("gnt-node", role(name, drained=True))
            self.world.nursery.start_soon(self._undrain, name, self.chance.uniform(600, 7200))

    async def _carry_out(self, tool: str, options: Mapping[str, Any]) -> Any:
        """Plan and execute; return the plan as it was made, or None."""
        plan = await self._caller.call(self._host, "plan", tool=tool, options=dict(options))
        if plan:
            await self._caller.call(self._host, "execute", plan=plan["id"])
        return plan

    async def execute_proposals(self) -> None:
        """Execute a plan that a policy proposes."""
        for plan in await self._caller.call(self._host, "plans") or ():
            if plan["state"] == "planned" and plan.get("policy"):
                await self._caller.call(self._host, "execute", plan=plan["id"])
                return

    async def reload(self) -> None:
        """Reload with an error, and again without it."""
        host = self._host
        host.configure(**self.ganeti.config, config_second=3)
        host.reload()
        await trio.sleep(self.chance.uniform(1, 600))
        host.configure(**self.ganeti.config)
        host.reload()

    async def upgrade(self) -> None:
        """Stop the daemon, and start a new one."""
        for host in self.world.hosts.values():
            await host.stop()
            await trio.sleep(self.chance.uniform(0, 20))
            await host.start()

    async def fail_over(self) -> None:
        """Make another candidate the master."""
        unusable = self._cluster.silent | self._cluster.offline | {self._cluster.master}
        others = sorted(set(self.world.hosts) - unusable)
        if others:
            pause = self.chance.choice((0.0, 1.0, 30.0))
            await self.ganeti.failover(self.chance.choice(others), pause)


def role(name: str, **marks: bool) -> dict[str, Any]:
    """Return the opcode that drains a node, sets it offline, or ends that."""
    return {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": name, "auto_promote": True, **marks}


def without(world: Cluster, name: str) -> Cluster:
    """Return the cluster without an instance."""
    row = world.instance(name)
    if row is None:
        return world
    changed = []
    for at, node in ((1, row.pnode), (0, row.snode)):
        if node and (found := world.node(node)):
            changed.append(node_after(found, row, world.units, memory=-at, storage=-1))
    world = world.with_nodes(changed)
    rows = tuple(each for each in world.cluster.instances if each.name != name)
    return replace(world, cluster=replace(world.cluster, instances=rows))


async def work(world: Any) -> None:
    """Do one thing after the other until cancelled."""
    if world.setting("actors", 1.0) <= 0:
        await trio.sleep_forever()
    one = Administrator(world)
    actions: Mapping[Callable[[], Awaitable[None]], int] = {
        one.remove: 4,
        one.rename: 1,
        one.drain: 3,
        one.fail: 2,
        one.maintain: 3,
        one.balance: 5,
        one.execute_proposals: 4,
        one.reload: 1,
        one.upgrade: 1,
        one.fail_over: 1,
    }
    while True:
        await trio.sleep(one.chance.expovariate(world.setting("actors", 1.0) / PAUSE))
        action = one.chance.choices(list(actions), list(actions.values()))[0]
        world.record("admin", action=getattr(action, "__name__", ""))
        await action()
