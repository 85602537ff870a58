"""The simulated Ganeti without processes and sockets; tests control its clock."""

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from trio.testing import memory_stream_pair

from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.simulator.connections import Faults, serve_client
from ganeti_htools.simulator.jobs import JobBehaviour, Jobs
from ganeti_htools.simulator.luxid import Luxid
from ganeti_htools.simulator.world import World


class Simulated:
    """A master, its jobs, and the faults of its connections. Without ``there``, connections fail.

    ``answer`` answers requests; tests may replace it.
    """

    def __init__(self, nursery: trio.Nursery, world: World, seconds: float) -> None:
        self.jobs = Jobs(nursery, world, JobBehaviour(seconds))
        self.trouble = Faults()
        self.there = True
        self.answer = Luxid(self.jobs).answer
        self._nursery = nursery
        self._streams: list[trio.abc.Stream] = []

    async def connect(self, path: str) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if not self.there:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        ours, theirs = memory_stream_pair()
        self._streams.append(theirs)
        self._nursery.start_soon(serve_client, theirs, lambda message: self.answer(message), self.trouble)
        return ours

    async def go(self) -> None:
        """Give up the master role: jobs go on, connections end."""
        self.there = False
        for stream in self._streams:
            await trio.aclose_forcefully(stream)

    def states(self) -> list[str]:
        """Return the states of all jobs, oldest first."""
        return [job.state.value for job in self.jobs.unarchived()]


@asynccontextmanager
async def simulated(world: World, seconds: float = 1.0) -> AsyncIterator[tuple[Simulated, LuxiClient]]:
    """Run a master whose opcodes take so many seconds, and a client of it."""
    async with trio.open_nursery() as nursery:
        master = Simulated(nursery, world, seconds)
        async with LuxiClient("/socket", master.connect) as client:
            yield master, client
        nursery.cancel_scope.cancel()
