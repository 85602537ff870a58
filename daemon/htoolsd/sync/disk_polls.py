"""Polls for the disks of instances: Ganeti's configuration file when it changes, or else jobs."""

import os
from collections.abc import Sequence

import structlog
import trio

from ganeti_htools.backends import ganeti_storage
from ganeti_htools.files import read_regular_file
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.model.cluster import Disk, Instance
from ganeti_htools.model.errors import DataError
from ganeti_htools.sources.storage_jobs import INSTANCES, SECONDS, query_disk_locations
from htoolsd.config.settings import Settings
from htoolsd.sync.polls import log_ignored
from htoolsd.sync.sync import Sync
from htoolsd.threads import run_by_size

_log = structlog.get_logger()

_FILE_BYTES = 1 << 28  # at most


class DiskPolls:
    """Keeps the units of disks up to date. ``path`` is that of Ganeti's configuration.

    ``readable``: the file could be read. ``error`` is what was wrong with its content.
    """

    def __init__(self, path: str, settings: Settings, sync: Sync) -> None:
        self._path = path
        self._settings = settings
        self._sync = sync
        self._version: tuple[int, ...] | None = None
        self.readable = False
        self.error: str | None = None
        self._asked: dict[str, tuple[tuple[Disk, ...], float]] = {}  # for which disks and when, by instance

    def forget(self) -> None:
        """Read the file again at the next poll."""
        self._version = None

    async def read(self) -> None:
        """Read the file if it has changed. Raises DataError."""
        try:
            found = os.stat(self._path)
            version = (found.st_ino, found.st_size, found.st_mtime_ns)
            if version == self._version:
                return
            data = await run_by_size(found.st_size, lambda: read_regular_file(self._path, _FILE_BYTES))
        except OSError as error:
            if self.readable or self._version is None:
                _log.info("Ganeti's configuration not read", file=self._path, error=error.strerror)
            self.readable, self._version = False, ()
            return
        self.readable, self._version, self.error = True, version, None
        try:
            disks = await run_by_size(len(data), lambda: ganeti_storage.configured_disks(data))
        except DataError as error:
            self.error = str(error)
            raise
        log_ignored(disks.wrong)
        await self._sync.revise_storage(disks=disks.disks)

    def forget_asked(self) -> None:
        """Ask for the disks of all instances again, where the file cannot be read."""
        self._asked.clear()

    async def ask(self, client: LuxiClient) -> None:
        """Ask for the disks of a few instances that are new or have changed. Raises HtoolsError."""
        model, now = self._sync.model, trio.current_time()
        if model.without_storage is None:
            return
        known, rows = model.storage.disks, {row.name: row for row in model.without_storage.instances}
        changed = await self._sync.compute(
            lambda: [name for name, row in rows.items() if _differ(row, known.get(name, ()))]
        )
        # Disks that were asked for in vain are not asked for again at once.
        late = now - self._settings.now.storage_seconds
        asked = {name: each for name, each in self._asked.items() if name in rows and each[1] > late}
        new = [name for name in changed if name not in asked or asked[name][0] is not rows[name].disks]
        self._asked = asked | {name: (rows[name].disks, now) for name in new[:INSTANCES]}
        if not new:
            return
        found = await query_disk_locations(client, new[:INSTANCES], model.without_storage, SECONDS)
        log_ignored(found.wrong)
        present = {name: disks for name, disks in known.items() if name in rows}
        await self._sync.revise_storage(disks={**present, **found.disks})


def _differ(row: Instance, disks: Sequence[Disk]) -> bool:
    """Whether the disks of an instance differ from the known ones."""
    return [disk.size for disk in disks] != [disk.size for disk in row.disks]
