"""Workers of a ledger: with patience on a busy machine, and their end."""

from typing import TypeVar

import trio

from htoolsd.store.worker import LedgerWorker, Work
from tests.support.programs import PATIENCE

T = TypeVar("T")


class PatientWorker(LedgerWorker):
    """A worker whose callers wait longer than those of the daemon."""

    async def do(self, work: Work[T], limit: float = PATIENCE, probe: bool = True) -> T:
        """Return the result of work."""
        return await super().do(work, limit, probe)


async def close(worker: LedgerWorker) -> None:
    """Close what is open, as at the end of the daemon."""
    with trio.CancelScope() as ending:
        ending.cancel()
        await worker.run()
