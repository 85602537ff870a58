"""The method ``status``: what the daemon reports about itself."""

import os
import time
from dataclasses import asdict
from pathlib import Path

from htoolsd.api.decisions import Decisions
from htoolsd.plans.plans import Plans
from htoolsd.process import alone
from htoolsd.process.config import Config
from htoolsd.process.version import VERSION
from htoolsd.socket.methods import Args, File, Method
from htoolsd.socket.server import Server
from htoolsd.sync.following import Sync


def resident_mib() -> float:
    """Memory of this process that is in RAM, MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), 1)


def method(config: Config, server: Server, sync: Sync, decisions: Decisions, plans: Plans) -> Method:
    """``status``; times are seconds of the epoch unless their name says otherwise."""
    started, clock = time.time(), time.monotonic()

    async def run(_args: Args, _file: File) -> object:
        return {
            "version": VERSION,
            "pid": os.getpid(),
            "started": started,
            "uptime_s": round(time.monotonic() - clock, 3),
            "socket": config.socket,
            "connections": server.connections,
            "luxi": asdict(sync.luxi),
            "cluster": sync.status(),
            "decisions": decisions.status() | alone.status(config.socket),
            "plans": plans.status(),
            "memory_mib": resident_mib(),
        }

    return Method("status", 1, "Tells how the daemon is and what it has done since it was started.", {}, run)
