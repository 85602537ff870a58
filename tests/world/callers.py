"""Clients of the daemon: those that ask, Ganeti's decisions, the hostile ones; and a look at the ledger."""

import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import trio

from ganeti_htools import machine
from ganeti_htools.client.protocol import Call, encode_call
from ganeti_htools.deciding.decision import respond
from ganeti_htools.luxi.framing import Decoder, FramingError
from ganeti_htools.model.cluster import Instance, Node
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.policy import IPolicy, ISpec
from ganeti_htools.model.types import Status
from ganeti_htools.simulator.logical_units import carry_out
from ganeti_htools.simulator.opcodes import OpcodeError
from ganeti_htools.simulator.world import World as Cluster
from tests.support.messages import random_allocate, relocate
from tests.world.ganeti import Ganeti, creation

TIMEOUT = 10.0  # seconds that the executable waits for the daemon
PATIENCE = 600.0  # seconds of an administrator
_STATES = {Status.DOWN: "down", Status.OFFLINE: "offline"}


def document(world: Cluster) -> dict[str, Any]:
    """Return the cluster as Ganeti describes it in iallocator requests."""
    rows = world.cluster
    return {
        "version": 2,
        "cluster_name": world.name,
        "cluster_tags": list(rows.tags),
        "enabled_hypervisors": ["fake"],
        "ipolicy": _policy(rows.ipolicy),
        "nodegroups": {
            group.uuid: {
                "name": group.name,
                "alloc_policy": group.alloc_policy.value,
                "tags": list(group.tags),
                "networks": list(group.networks),
                "ipolicy": _policy(group.ipolicy),
            }
            for group in rows.groups
        },
        "nodes": {node.name: _node(world, node) for node in rows.nodes},
        "instances": {row.name: _instance(row) for row in rows.instances},
    }


def _spec(spec: ISpec) -> dict[str, int]:
    return {name.replace("_", "-"): value for name, value in asdict(spec).items()}


def _policy(policy: IPolicy) -> dict[str, Any]:
    return {
        "minmax": [{"min": _spec(pair.min), "max": _spec(pair.max)} for pair in policy.minmax],
        "std": _spec(policy.std),
        "disk-templates": [template.value for template in policy.disk_templates],
        "vcpu-ratio": policy.vcpu_ratio,
        "spindle-ratio": policy.spindle_ratio,
    }


def _node(world: Cluster, node: Node) -> dict[str, Any]:
    live = {
        "total_memory": int(node.t_mem),
        "reserved_memory": node.n_mem,
        "free_memory": node.f_mem,
        "total_disk": int(node.t_dsk),
        "free_disk": node.f_dsk,
        "total_cpus": int(node.t_cpu),
        "reserved_cpus": node.n_cpu,
        "total_spindles": node.t_spindles,
        "free_spindles": node.f_spindles,
    }
    return {
        **(live if node.name not in world.offline else {}),
        "offline": node.name in world.offline,
        "drained": node.name in world.drained,
        "vm_capable": True,
        "group": node.group,
        "tags": list(node.tags),
        "ndparams": {"exclusive_storage": node.excl_stor, "spindle_count": node.t_spindles},
    }


def _instance(row: Instance) -> dict[str, Any]:
    return {
        "memory": row.mem,
        "vcpus": row.vcpus,
        "disk_space_total": row.dsk,
        "tags": list(row.tags),
        "admin_state": _STATES.get(row.status, "up"),
        "disk_template": row.template.value,
        "nodes": [name for name in (row.pnode, row.snode) if name],
        "spindle_use": row.spindle_use,
        "disks": [{"size": disk.size, "spindles": disk.spindles} for disk in row.disks],
        "nics": [],
        "forthcoming": row.forthcoming,
    }


async def exchange(path: str, message: bytes, file: int | None = None) -> Any:
    """Return the daemon's answer to a message, with which an open file may be passed.

    Raises OSError, FramingError.
    """
    with trio.socket.socket(trio.socket.AF_UNIX) as sock:
        await sock.connect(path)
        sent = 0
        if file is not None:
            raw = socket.socket(fileno=os.dup(sock.fileno()))
            with raw:
                sent = socket.send_fds(raw, [message], [file])
        stream = trio.SocketStream(sock)
        with suppress(trio.BrokenResourceError):
            await stream.send_all(message[sent:])
        decoder = Decoder(1 << 30)
        while True:
            try:
                data = await stream.receive_some()
            except trio.BrokenResourceError as error:
                raise FramingError("closed") from error
            if not data:
                raise FramingError("closed without an answer")
            for answer in decoder.feed(bytes(data)):
                return orjson.loads(answer)


class Caller:
    """A client whose calls and answers are recorded, by number."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self._count = 0

    async def call(self, host: Any, method: str, **args: Any) -> Any:
        """Return the result of a call; None if it was refused or not answered."""
        number = self._begin(method, host)
        told: dict[str, Any]
        result = None
        try:
            with trio.fail_after(PATIENCE):
                answer = await exchange(str(host.socket), encode_call(Call(method, args)))
            told, result = _told(method, answer, self.world.steady())
        except (OSError, FramingError, trio.TooSlowError) as error:
            told = {"error": "unreachable", "message": type(error).__name__}
        self.world.record("answer", id=number, **told)
        return result

    async def decide(self, host: Any, request: dict[str, Any]) -> Any:
        """Have a request decided as Ganeti does, by the daemon or in the end by hail. Return the result."""
        ganeti: Ganeti = self.world.ganeti
        data = orjson.dumps({**document(ganeti.state), "request": request})
        number, answer, by = self._begin("decide", host), None, "hail"
        before, names, promised = _claims(host), set(ganeti.jobs.promised), with_promises(ganeti)
        path = Path(host.state).parent / f"request{number}"
        path.write_bytes(data)
        told: dict[str, Any] = {}
        began = self.world.steady()
        with suppress(OSError, FramingError), trio.move_on_after(TIMEOUT), path.open("rb") as file:
            found = await exchange(str(host.socket), encode_call(Call("decide", {})), file.fileno())
            if found["success"]:
                answer, by = found["result"]["stdout"], "daemon"
            else:
                told = {"error": found["result"]["error"], "message": found["result"]["message"]}
        path.unlink()
        # Others may have claimed meanwhile, if that took any time.
        same = began == self.world.steady() or before == _claims(host) - {request.get("name")}
        known = before == names and same
        seen = data if answer is None else orjson.dumps({**document(promised), "request": request})
        fresh = _hail(seen) if answer is None or known else None
        decided = orjson.loads(answer or fresh or b"{}")
        expected = orjson.loads(fresh)["result"] if fresh and by == "daemon" else None
        self.world.record("answer", id=number, by=by, answer=decided.get("result"), expected=expected, **told)
        return decided.get("result") if decided.get("success") else None

    def _begin(self, method: str, host: Any) -> int:
        self._count += 1
        self.world.record("call", id=self._count, method=method, host=host.name)
        return self._count


def with_promises(ganeti: Ganeti) -> Cluster:
    """Return the cluster with the instances that are just being created."""
    state = ganeti.state
    for opcode in ganeti.jobs.promised.values():
        with suppress(OpcodeError):  # its node is drained by now, for example
            state, _ = carry_out(state, opcode)
    return state


def _told(method: str, answer: Any, now: float) -> tuple[dict[str, Any], Any]:
    """Return what the record has of an answer at the world's time ``now``, and its result."""
    result = answer["result"]
    if not answer["success"]:
        return {"error": result["error"], "message": result["message"]}, None
    if method == "status":
        kept = [{key: each[key] for key in ("kind", "text", "names")} for each in result["attention"]]
        going = any(result["plans"].get(each) for each in ("running", "stopping"))
        master, up = result["cluster"]["master"], result["uptime_s"]
        return {"attention": kept, "master": master, "up": now - up, "going": going}, result
    if method == "plans":
        return {"plans": [{key: plan[key] for key in ("id", "state")} for plan in result]}, result
    return {}, result


def _hail(data: bytes) -> str | None:
    try:
        return respond(data, PlacementOptions()).answer
    except HtoolsError:
        return None


def _ledger(host: Any, query: str) -> list[tuple[Any, ...]]:
    path = f"file:{host.state}/ledger.sqlite?mode=ro"
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, uri=True, timeout=0)) as ledger:
        return ledger.execute(query).fetchall()
    return []


def _claims(host: Any) -> set[str]:
    """Return the names of the claims and plans in the ledger of a host."""
    rows = _ledger(
        host, "SELECT name FROM consumers WHERE kind = 'claim' OR kind = 'plan' OR promised IS NOT NULL"
    )
    return {str(name).rpartition("/")[2] for (name,) in rows}


_USE = """SELECT p.name, c.name, i.total, i.reserved, i.allocation_ratio,
 SUM(CASE WHEN o.expires IS NOT NULL AND NOT o.beyond THEN a.used ELSE 0 END), SUM(a.used)
 FROM allocations a JOIN consumers o ON o.id = a.consumer_id
 JOIN resource_providers p ON p.id = a.resource_provider_id
 JOIN resource_classes c ON c.id = a.resource_class_id
 JOIN inventories i ON i.resource_provider_id = p.id AND i.resource_class_id = c.id
 GROUP BY p.id, c.id"""


_EMPTY = """SELECT name FROM consumers o WHERE kind IN ('claim', 'plan')
 AND NOT EXISTS (SELECT * FROM allocations WHERE consumer_id = o.id)"""


async def watch_ledgers(world: Any) -> None:
    """Record claims over the capacity of their provider, those that have ended and remain, and empty ones."""
    while True:
        await trio.sleep(600)
        for host in list(world.hosts.values()):
            over = [
                [provider, name, int((total - reserved) * ratio), claimed, used]
                for provider, name, total, reserved, ratio, claimed, used in _ledger(host, _USE)
                if claimed
            ]
            expired = _ledger(
                host, f"SELECT name FROM consumers WHERE expires < {machine.now() - 3600} AND kind = 'claim'"
            )
            empty = [name for (name,) in _ledger(host, _EMPTY)]
            running = host.running and host.name == world.ganeti.state.master
            names = [name for (name,) in expired] if running else []
            world.record("ledger", host=host.name, claims=over, expired=names, empty=empty)


def requests(world: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield requests for new instances and for moves, with the name of the instance."""
    chance, count = world.chance("requests"), 0
    while True:
        rows = world.ganeti.state.cluster.instances
        templates = sorted({row.template.value for row in rows} - {"file"})
        movable = [row for row in rows if row.template.value in ("drbd", "ext", "sharedfile")]
        if chance.random() < 0.2 and movable:
            row = chance.choice(movable)
            yield relocate({"instances": {row.name: _instance(row)}}, row.name), row.name
            continue
        count += 1
        name = f"new{count}.example.org"
        yield random_allocate(chance, name, chance.choice(templates or ["drbd"])), name


async def decide(world: Any, caller: Caller) -> None:
    """Ganeti creates and moves instances, a few in an hour, now and then many at once."""
    chance, ganeti, new = world.chance("decisions"), world.ganeti, dict[str, dict[str, Any]]()

    async def allocate(name: str) -> Any:
        return await caller.decide(world.hosts[ganeti.state.master], new.pop(name))

    ganeti.jobs.allocate = allocate
    for request, name in requests(world):
        await trio.sleep(chance.choice((1, 600, 3600)) * chance.random())
        state = ganeti.state
        if state.silent - state.offline or len(state.cluster.instances) > 5 * len(state.cluster.nodes):
            continue  # Ganeti itself gives up
        if request["type"] == "allocate":
            new[name] = request
            ganeti.submit("gnt-instance", creation(request))
        else:
            await caller.decide(world.hosts[state.master], request)


async def ask(world: Any, caller: Caller) -> None:
    """Administrators and monitoring look at what the daemon says."""
    chance = world.chance("asking")
    while True:
        await trio.sleep(chance.uniform(60, 900))
        host = (
            world.hosts[world.ganeti.state.master]
            if chance.random() < 0.8
            else chance.choice(list(world.hosts.values()))
        )
        await caller.call(host, "status")
        await caller.call(host, "plans")
        # Metrics count the capacity, which takes the helper a second.
        method = chance.choice(("policies", "usage", "explain", "history"))
        if chance.random() < 0.03:
            method = "metrics"
        args = {"policy": "rebalance"} if method == "explain" else {}
        await caller.call(host, method, **args)


async def attack(world: Any) -> None:
    """Clients that are silent, send too much or nonsense, do not read, or leave early."""
    chance = world.chance("hostile")
    while True:
        await trio.sleep(chance.expovariate(1 / 1800))
        host = chance.choice(list(world.hosts.values()))
        kind = chance.choice(("silent", "huge", "slow", "linger", "nonsense"))
        world.record("hostile", kind=kind, host=host.name)
        for _ in range(chance.choice((1, 5, 20))):
            world.nursery.start_soon(_attack, world, str(host.socket), kind)


async def _attack(world: Any, path: str, kind: str) -> None:
    began = world.steady()
    with suppress(OSError, trio.BrokenResourceError), trio.move_on_after(900):
        async with await trio.open_unix_socket(path) as stream:
            message = encode_call(Call("status", {}))
            match kind:
                case "huge":
                    for _ in range(40):
                        await stream.send_all(b"[" * (1 << 19))
                case "slow":
                    for byte in message:
                        await stream.send_all(bytes([byte]))
                        await trio.sleep(5)
                case "linger":
                    with trio.move_on_after(120):
                        for _ in range(100):
                            await stream.send_all(message)
                        await trio.sleep_forever()
                case "nonsense":
                    await stream.send_all(b'{"method": 3}\x03' * 20)
            while await stream.receive_some():
                pass
    world.record("hostile", kind=kind, kept=world.steady() - began)


async def work(world: Any) -> None:
    """Run all callers until cancelled."""
    caller = Caller(world)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_ledgers, world)
        nursery.start_soon(ask, world, caller)
        nursery.start_soon(decide, world, caller)
        if world.chance("hostile").random() < world.setting("faults", 1.0):
            nursery.start_soon(attack, world)
