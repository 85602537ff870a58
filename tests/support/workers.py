"""The end of workers of a ledger."""

import trio

from htoolsd.ledger.worker import LedgerWorker


async def close(worker: LedgerWorker) -> None:
    """Close what is open, as at the end of the daemon."""
    with trio.CancelScope() as ending:
        ending.cancel()
        await worker.run()
