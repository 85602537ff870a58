"""The method ``status``: what the daemon reports about itself."""

import os
import time
from dataclasses import asdict
from pathlib import Path

from ganeti_htools.version import VERSION
from htoolsd.api.decisions import Decisions
from htoolsd.api.group_health import GroupHealth
from htoolsd.claims.claims import Claims
from htoolsd.claims.reconciler import Reconciler
from htoolsd.history.history import History
from htoolsd.ledger.worker import LedgerWorker
from htoolsd.plans.plans import Plans
from htoolsd.policies.schedule import Policies
from htoolsd.socket import alone
from htoolsd.socket.methods import Args, File, Handler
from htoolsd.socket.server import Server
from htoolsd.sync.sync import Sync


def resident_mib() -> float:
    """Memory of this process that is in RAM, MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), 1)


def teller(
    socket: str,
    server: Server,
    sync: Sync,
    decisions: Decisions,
    claims: Claims,
    plans: Plans,
    policies: Policies,
    history: History,
    ledger: LedgerWorker,
    reconciler: Reconciler,
) -> Handler:
    """The handler of ``status``. Times are seconds of the epoch unless their name says otherwise."""
    started, clock, groups = time.time(), time.monotonic(), GroupHealth(sync)

    async def run(_args: Args, _file: File) -> object:
        return {
            "version": VERSION,
            "pid": os.getpid(),
            "started": started,
            "uptime_s": round(time.monotonic() - clock, 3),
            "socket": socket,
            "connections": server.connections,
            "luxi": asdict(sync.luxi),
            "cluster": sync.status(),
            "groups": await groups.told(),
            "decisions": decisions.status() | alone.status(socket),
            "claims": claims.status(),
            "plans": plans.status(),
            "policies": policies.health(),
            "history": history.status(),
            "ledger": await ledger.status() | reconciler.status(),
            "memory_mib": resident_mib(),
        }

    return run
