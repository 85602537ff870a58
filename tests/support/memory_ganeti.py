"""A Ganeti without sockets: the simulator's luxid behind memory streams, and the master role."""

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson
import trio
import trio.testing

from ganeti_htools.backends import text
from ganeti_htools.simulator.connections import Faults, serve_client
from ganeti_htools.simulator.jobs import JobBehaviour, Jobs
from ganeti_htools.simulator.luxid import Luxid
from ganeti_htools.simulator.world import World
from ganeti_htools.sources.ssconf import Ssconf
from htoolsd.config.settings import Settings
from htoolsd.events import EventStream
from htoolsd.sync.sync import Sync
from htoolsd.sync.this_node import ThisNode
from tests.support.settings import settings
from tests.support.worlds import world

LIVE_FIELD = {"node": "mfree", "instance": "status"}


class Role(Protocol):
    """The role of a node, as a test says."""

    master: bool


class Node(ThisNode):
    """The node of a daemon."""

    def __init__(self, role: Role) -> None:
        super().__init__(Ssconf("node1", "/nonexistent"))
        self._role_of = role

    async def leads(self) -> bool | None:
        return self._role_of.master


@dataclass
class MemoryGaneti:
    """``asked`` has what was asked, and when.

    While it is ``away``, nobody can connect; while ``stuck``, requests for live data of all nodes get no
    answer, and while ``hung`` those of some nodes. In what it says, the first of ``garble`` is replaced by
    the second.
    """

    nursery: trio.Nursery
    jobs: Jobs
    master: bool = True
    away: bool = False
    stuck: bool = False
    hung: bool = False
    garble: tuple[bytes, bytes] = (b"", b"")
    attempts: list[float] = field(default_factory=list)
    asked: list[tuple[float, str]] = field(default_factory=list)
    _lines: list[trio.CancelScope] = field(default_factory=list)

    async def connect(self, _path: str) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        self.attempts.append(trio.current_time())
        if self.away:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        ours, theirs = trio.testing.memory_stream_pair()
        self.nursery.start_soon(self._serve, theirs)
        return ours

    @property
    def node(self) -> "Node":
        """The node of the daemon."""
        return Node(self)

    def leave(self) -> None:
        """End luxid and all connections."""
        self.away = True
        for line in self._lines:
            line.cancel()
        self._lines.clear()

    def times(self, what: str) -> list[float]:
        """Return the times at which a request was made."""
        return [when for when, asked in self.asked if asked == what]

    async def _serve(self, stream: trio.abc.Stream) -> None:
        luxid = Luxid(self.jobs)

        async def answer(message: bytes) -> tuple[bytes, bool]:
            what = self._name(orjson.loads(message))
            self.asked.append((trio.current_time(), what))
            some = what.startswith("live some")
            if self.hung if some else self.stuck and what.startswith("live"):
                await trio.sleep_forever()
            said, goes_on = await luxid.answer(message)
            return said.replace(*self.garble) if self.garble[0] else said, goes_on

        with trio.CancelScope() as line:
            self._lines.append(line)
            await serve_client(stream, answer, Faults())

    def _name(self, request: Any) -> str:
        if request["method"] != "Query":
            return str(request["method"])
        kind, fields, some = request["args"]
        live = "live some" if some else "live"
        return f"{live} {kind}" if LIVE_FIELD.get(kind) in fields else str(kind)


@asynccontextmanager
async def ganeti(
    start: World | None = None, job_seconds: float = 1.0, jobs: type[Jobs] = Jobs
) -> AsyncIterator[MemoryGaneti]:
    """Run a Ganeti within the block."""
    async with trio.open_nursery() as nursery:
        yield MemoryGaneti(nursery, jobs(nursery, start or world(), JobBehaviour(job_seconds)))
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def following(
    ganeti: MemoryGaneti, configuration: float = 5, live: float = 300, known: Settings | None = None
) -> AsyncIterator[Sync]:
    """Run a synchronisation within the block, by the settings ``known`` if there are any."""
    known = known or settings(config_seconds=configuration, live_seconds=live)
    sync = Sync("/luxi", ganeti.node, known, EventStream(), connect=ganeti.connect)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync.run)
        yield sync
        nursery.cancel_scope.cancel()


def described(sync: Sync) -> str | None:
    """Return the model in the text format."""
    return None if sync.model.cluster is None else text.dump(sync.model.cluster)


def truth(ganeti: MemoryGaneti) -> str:
    """Return Ganeti's cluster in the text format."""
    return text.dump(ganeti.jobs.world.file_cluster())
