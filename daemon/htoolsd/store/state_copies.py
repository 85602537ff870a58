"""Copies of the daemon's state files in a ledger that all master candidates share.

The file is written first, and nobody waits for its copy. Copies need no clock to tell which is newer. A
machine's own file is at least as new as the copy that it wrote. A copy that another machine wrote is newer,
because that machine was the master afterwards.
"""

import os

import structlog
import trio

from htoolsd.store.records import LedgerError
from htoolsd.store.worker import LedgerWorker
from htoolsd.sync.sync import Sync

_log = structlog.get_logger()

_REST = 5.0  # seconds until a failed write is tried again
_LAST_SECONDS = 2.0  # for the last write


class StateCopies:
    """Copies of the state files that this machine has in a directory.

    Nothing is written until the copies of others have been fetched, and while another daemon acts.
    """

    def __init__(self, ledger: LedgerWorker, sync: Sync, directory: str) -> None:
        self._ledger = ledger
        self._sync = sync
        self._directory = os.path.abspath(directory)
        self._waiting: dict[str, str | None] = {}
        self._news = trio.Event()
        self._fetched = False

    @property
    def _writer(self) -> str:
        return f"{self._sync.node.ssconf.name}:{self._directory}"

    def put(self, name: str, content: str | None) -> None:
        """Have a file copied soon; None: it was removed."""
        if self._ledger.shared:
            self._waiting[name] = content
            self._news.set()

    def hold(self) -> None:
        """Write nothing before the next fetch: another daemon may act."""
        self._fetched = False

    async def fetch(self) -> dict[str, str | None]:
        """Return the copies that other machines have written last. Raises LedgerError.

        They replace what this machine has, so its own older content is not written.
        """
        cluster = self._sync.own_cluster()
        if not self._ledger.shared or cluster is None:
            return {}
        others = await self._ledger.do(lambda ledger: ledger.documents_of_others(cluster, self._writer))
        for name in others:
            self._waiting.pop(name, None)
        self._fetched = True
        self._news.set()
        return dict(others)

    async def run(self) -> None:
        """Write copies until cancelled."""
        try:
            while True:
                await self._news.wait()
                self._news = trio.Event()
                while self._waiting and not await self._write():
                    await trio.sleep(_REST)
        finally:
            with trio.move_on_after(_LAST_SECONDS, shield=True):
                await self._write()

    async def _write(self) -> bool:
        """Write what waits, if this daemon acts; return False if it has to be tried again."""
        cluster = self._sync.own_cluster()
        if cluster is None or not self._fetched or not self._waiting:
            return True
        contents, self._waiting = self._waiting, {}
        try:
            await self._ledger.do(
                lambda ledger: ledger.write_documents(cluster, self._writer, contents), probe=False
            )
        except BaseException as error:
            self._waiting = contents | self._waiting
            if not isinstance(error, LedgerError):
                raise
            return False
        return True
