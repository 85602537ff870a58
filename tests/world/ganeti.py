"""The stand-in of Ganeti: a cluster by seed, luxid on the master node, and the record of what happens."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import orjson
import trio

from ganeti_htools import machine
from ganeti_htools.luxi.framing import encode
from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.simulator import world as simulated
from ganeti_htools.simulator.connections import Faults, listen, serve_client
from ganeti_htools.simulator.jobs import JobBehaviour, Jobs, QueuedJob
from ganeti_htools.simulator.luxid import Luxid
from ganeti_htools.simulator.opcodes import OpcodeError
from ganeti_htools.simulator.world import initial_world
from tests.support.clusters import TAGS, Shape
from tests.support.rows import with_master

TEMPLATES: Sequence[Mapping[str, int]] = (
    {"drbd": 1},
    {"ext": 1},
    {"drbd": 4, "ext": 2, "plain": 1},
    {"drbd": 6, "plain": 2, "sharedfile": 1, "diskless": 1},
)
HOSTS = 3  # master candidates that have a daemon
WATCHER = 3600.0  # seconds between two rounds of ganeti-watcher, which archives jobs of six hours ago
_QUERIES = tuple(b'{"method":"%b",' % name for name in (b"Query", b"QueryClusterInfo", b"QueryJobs"))
_by: ContextVar[int | str] = ContextVar("by", default="ganeti")  # who changes the cluster: a job or an actor


def cluster(chance: Random, nodes: int) -> Cluster:
    """Return a cluster by chance: groups, templates, rules by tags, nodes that are offline or drained."""
    shape = Shape(
        nodes=nodes,
        instances=nodes * chance.randint(2, 4),
        groups=chance.choice((1, 1, 2, 3)),
        templates=chance.choice(TEMPLATES),
        fill=chance.choice((0.3, 0.45, 0.6)),
        offline=chance.choice((0, 0, 1)),
        drained=chance.choice((0, 0, 0, 0, 0, 1)),
        tags=[kind for kind in TAGS if chance.random() < 0.2],
    )
    return with_master(chance.randrange(1 << 30), shape)


def configuration(chance: Random, polls: Mapping[str, float]) -> dict[str, Any]:
    """Return a configuration of the daemon by chance. Policies begin sooner than by default."""
    found: dict[str, Any] = {**polls, "claims": chance.choice(("auto", "auto", "always"))}
    for name in ("repair", "redistribute", "squeeze", "rebalance"):
        found[name] = {
            "mode": chance.choice(("off", "shadow", "propose", "act", "act")),
            "hold": chance.choice((1, 3)),
            "max_moves": chance.choice((3, 10)),
            "moves_per_day": chance.choice((10, 40)),
            "hours": chance.choice(("", "", "", "22:00-06:00")),
        }
    start = chance.choice((0.1, 0.6))
    found["rebalance"] |= {"start": start, "stop": start / 2, "min_gain": 0.02}
    found["squeeze"]["allow_drbd"] = chance.random() < 0.5
    return found


def node_row(world: simulated.World, node: Node) -> dict[str, Any]:
    """Return a node as the record has it."""
    sets = {"offline": world.offline, "drained": world.drained, "silent": world.silent}
    marks = {mark: node.name in names for mark, names in sets.items()}
    return {"group": node.group, "f_mem": node.f_mem, "f_dsk": node.f_dsk, "tags": list(node.tags), **marks}


def instance_row(row: Instance) -> dict[str, Any]:
    """Return an instance as the record has it."""
    places = [name for name in (row.pnode, row.snode) if name]
    reserves = row.uses_secondary_memory and row.template is DiskTemplate.DRBD
    return {
        "nodes": places,
        "mem": row.mem,
        "template": row.template.value,
        "status": row.status.value,
        "tags": list(row.tags),
        "reserves": reserves,
        "uses": row.uses_memory,
    }


class RecordedJobs(Jobs):
    """Jobs whose submissions, ends and effects are recorded.

    ``allocate`` is the iallocator that jobs call for new instances, ``promised`` are those for which it has
    chosen nodes.
    """

    allocate: Callable[[str], Awaitable[Sequence[str]]]

    def __init__(self, nursery: trio.Nursery, start: simulated.World, record: Any) -> None:
        self._record, self.promised = record, dict[str, Mapping[str, Any]]()
        super().__init__(nursery, start, JobBehaviour(20.0, boot_seconds=120.0))

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "world" and hasattr(self, "world"):
            self._note(self.world, value)
        super().__setattr__(name, value)

    def _note(self, before: simulated.World, after: simulated.World) -> None:
        old_nodes = {node.name: node_row(before, node) for node in before.cluster.nodes}
        nodes = {node.name: node_row(after, node) for node in after.cluster.nodes}
        old = {row.name: row for row in before.cluster.instances}
        new = {row.name: row for row in after.cluster.instances}
        changed: dict[str, Any] = {
            name: instance_row(row) for name, row in new.items() if row is not old.get(name)
        }
        changed |= dict.fromkeys(old.keys() - new.keys())
        nodes = {name: row for name, row in nodes.items() if row != old_nodes.get(name)}
        if nodes or changed or before.cluster.tags != after.cluster.tags:
            tags = list(after.cluster.tags)
            self._record("change", by=_by.get(), nodes=nodes, instances=changed, tags=tags)

    async def _work(self, job: QueuedJob) -> None:
        _by.set(job.number)
        first: Any = job.ops[0].opcode
        name = first.get("instance_name", "")
        if "iallocator" in first and (nodes := await self.allocate(name)):
            first |= dict(zip(("pnode", "snode"), nodes, strict=False))
            self.promised[name] = first
        await super()._work(job)
        self.promised.pop(name, None)
        self._record("job", number=job.number, state=job.state.value)

    def archive(self, number: int) -> bool:
        """Archive a job if it has ended; return whether it has."""
        self._wake()
        return super().archive(number)

    async def watch(self) -> None:
        """Archive old jobs now and then, as ganeti-watcher does."""
        while True:
            await trio.sleep(WATCHER)
            for job in self.unarchived():
                if job.end is not None and job.end[0] < machine.now() - 6 * WATCHER:
                    self.archive(job.number)

    def _cancel(self, job: QueuedJob) -> None:
        super()._cancel(job)
        self._record("job", number=job.number, state=job.state.value)

    def _fail(self, job: QueuedJob, text: str) -> None:
        running = any(op.start for op in job.ops)
        super()._fail(job, text)
        if not running:  # otherwise the end of its work is recorded
            self._record("job", number=job.number, state=job.state.value)


class LuxidFaults:
    """What luxid does instead of answering properly, by chance, while ``rate`` is above 0."""

    KINDS = ("close", "late", "half", "twice", "wrong", "error")

    def __init__(self, chance: Random, record: Any) -> None:
        self.rate = 0.0
        self._chance, self._record = chance, record

    async def spoil(self, method: str, text: bytes) -> tuple[bytes, bool]:
        """Return what is sent instead of an answer, and whether the connection stays open."""
        if self._chance.random() >= self.rate:
            return text, True
        kind = self._chance.choice(self.KINDS)
        self._record("luxi", fault=kind, method=method)
        match kind:
            case "close":
                return b"", False
            case "late":
                await trio.sleep(self._chance.choice((2.0, 20.0, 90.0)))
            case "half":
                return text[: len(text) // 2], False
            case "twice":
                return text * 2, True
            case "wrong" if not method.startswith("Submit"):  # whose jobs would be another's
                return encode({"success": True, "result": self._chance.choice((None, 7, [], {}, "no"))}), True
            case "error":
                error = ["OpPrereqError", ["the configuration is being written", "temp_insufficient"]]
                return encode({"success": False, "result": error}), True
        return text, True


class Ganeti:
    """A cluster with its jobs, and luxid on the master node. ``config`` is that of all daemons."""

    def __init__(
        self, world: Any, nursery: trio.Nursery, start: simulated.World, config: dict[str, Any]
    ) -> None:
        self.world, self.config = world, config
        self.jobs = RecordedJobs(nursery, start, world.record)
        self.faults = LuxidFaults(world.chance("luxid"), world.record)
        self.failing_over = False
        self._nursery = nursery
        self._served: dict[str, trio.CancelScope] = {}

    @property
    def state(self) -> simulated.World:
        """The cluster as it is."""
        return self.jobs.world

    def change(self, by: str, changed: simulated.World) -> None:
        """Put a cluster that an actor has changed in place of the present one."""
        _by.set(by)
        self.jobs.change(changed)

    def submit(self, by: str, *opcodes: Mapping[str, Any]) -> None:
        """Submit a job of somebody else than the daemon. A drained queue takes none."""
        with suppress(OpcodeError):
            self.jobs.submit([[{"reason": [[by, "", 1]], **opcode} for opcode in opcodes]])

    async def serve(self, name: str) -> None:
        """Begin to serve LUXI on a node."""
        await self._nursery.start(self._serve, name)

    def stop_serving(self, name: str) -> None:
        """End luxid on a node, and all its connections."""
        if name in self._served:
            self._served.pop(name).cancel()

    async def _serve(self, name: str, *, task_status: trio.TaskStatus[None]) -> None:
        host, luxid = self.world.hosts[name], Luxid(self.jobs)
        answers, seen = dict[bytes, bytes](), self.jobs._changed  # of this state of cluster and queue

        async def answer(message: bytes) -> tuple[bytes, bool]:
            nonlocal seen
            if message.startswith(_QUERIES):
                if seen is not self.jobs._changed:
                    seen = self.jobs._changed
                    answers.clear()
                if message not in answers:
                    answers[message], _ = await luxid.answer(message)
                return await self.faults.spoil("Query", answers[message])
            method = _method(message)
            newest = max(self.jobs._jobs, default=0)
            text, stays = await luxid.answer(message)
            new = [job for number, job in self.jobs._jobs.items() if number > newest]
            if new and method.startswith("Submit"):  # others came while it waited for a change
                told = [_submitted(job, Path(host.state)) for job in new]
                self.world.record("submit", host=name, wall=machine.now(), jobs=told)
            sent, open_ = await self.faults.spoil(method, text)
            return sent, stays and open_

        with trio.CancelScope() as self._served[name], listen(str(host.luxi)) as listener:
            task_status.started()
            serve = partial(serve_client, answer=answer, faults=Faults())
            await trio.serve_listeners(serve, [listener])

    def announce(self, names: Sequence[str], master: str) -> None:
        """Write the ssconf files of these nodes."""
        for name in names:
            self.world.hosts[name].ssconf(master, list(self.world.hosts), self.state.name)
            self.world.record("role", host=name, master=name == master)

    async def failover(self, new: str, pause: float) -> None:
        """Make another node the master. The old one learns of it after ``pause`` seconds, its luxid later."""
        old, self.failing_over = self.state.master, True
        await self.serve(new)
        self.change("administrator", replace(self.state, master=new))
        self.announce([name for name in self.world.hosts if name != old], new)
        await trio.sleep(pause)
        self.announce([old], new)
        await trio.sleep(self.world.chance("failover").choice((0.0, 0.0, 300.0)))  # nobody stops luxid there
        self.stop_serving(old)
        self.failing_over = False


def _method(message: bytes) -> str:
    try:
        return str(orjson.loads(message)["method"])
    except (ValueError, LookupError, TypeError):
        return ""


def creation(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the opcode that creates the instance of a request where the iallocator says."""
    return {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": request["name"],
        "disk_template": request["disk_template"],
        "disks": request["disks"],
        "beparams": {"maxmem": request["memory"], "vcpus": request["vcpus"]},
        "iallocator": "htoolsd",
    }


def _unrecorded(state: Path, comment: str, reason: Sequence[Sequence[str]]) -> list[str]:
    """Return the files of a daemon that should have a job of its plan by now, and have not."""
    found = re.fullmatch(r".*, run (\w+), job (\d+)/\d+", comment)
    if found is None:
        return []
    run, jobset = found.groups()
    files = {f"plans/{run}.json": rf'"jobset": *{jobset}\b'}
    if any("plan of policy" in text for _, text in reason):
        files["policies.json"] = run
    return [name for name, text in files.items() if not re.search(text, _text(state / name))]


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _submitted(job: QueuedJob, state: Path) -> dict[str, Any]:
    first = job.ops[0].opcode
    ops = [
        {
            "id": op.opcode["OP_ID"].removeprefix("OP_"),
            "instance": op.opcode.get("instance_name"),
            "node": op.opcode.get("node_name"),
            "targets": [op.opcode[key] for key in ("target_node", "remote_node") if op.opcode.get(key)],
        }
        for op in job.ops
    ]
    reason = [entry[:2] for entry in first.get("reason") or ()]
    comment = first.get("comment")
    missing = _unrecorded(state, comment or "", reason)
    return {"number": job.number, "comment": comment, "reason": reason, "ops": ops, "unrecorded": missing}


async def furnish(world: Any) -> None:
    """Make the cluster and its configuration, serve LUXI, and start the daemons of the master candidates."""
    chance = world.chance("cluster")
    rows = cluster(chance, int(world.setting("nodes", 20)))
    start = replace(initial_world(rows), name="cluster")
    polls = {
        "config_seconds": world.setting("config_seconds", 5),
        "live_seconds": world.setting("live_seconds", 300),
    }
    config = configuration(chance, polls)
    ganeti = world.ganeti = Ganeti(world, world.nursery, start, config)
    world.nursery.start_soon(ganeti.jobs.watch)
    usable = [node.name for node in rows.nodes if node.name not in start.offline | start.drained]
    names = [start.master, *(name for name in usable if name != start.master)][:HOSTS]
    world.record(
        "cluster",
        nodes={node.name: node_row(start, node) for node in rows.nodes},
        instances={row.name: instance_row(row) for row in rows.instances},
        tags=list(rows.tags),
        config=config,
    )
    for name in names:
        (await world.host(name)).configure(**config)
    ganeti.announce(names, start.master)
    await ganeti.serve(start.master)
    for name in names:
        await world.hosts[name].start()
