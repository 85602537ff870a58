"""Polls for storage: Ganeti's configuration file when it changes; nodes (by jobs) and pools now and then.

No job is submitted unless the daemon's configuration asks for it. A few nodes are asked at a time, and only
while no job works on them, since a job that asks holds locks that others need.
"""

import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from math import inf
from typing import Any

import structlog
import trio

from ganeti_htools.backends import ganeti_storage
from ganeti_htools.files import read_regular_file
from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.model.cluster import Cluster, Disk, Instance
from ganeti_htools.model.errors import DataError, HtoolsError, on_one_line
from ganeti_htools.model.known_storage import DisksByInstance, UnitSpace, queryable_types
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.nursery import open_nursery
from ganeti_htools.sources.storage_jobs import INSTANCES, NODES, SECONDS, query_disk_locations, query_units
from htoolsd.config.settings import Settings
from htoolsd.sync.model import Model
from htoolsd.sync.node_storage import (
    KnownStorage,
    StorageReport,
    UsedStorage,
    add_reports,
    names_other_units,
    revise_storage,
    used_pools,
    used_storage,
)
from htoolsd.sync.polls import PollStatistics
from htoolsd.sync.pool_probes import probe
from htoolsd.threads import run_by_size

_log = structlog.get_logger()

PAUSE, SHORT_PAUSE = 5.0, 1.0  # seconds between two rounds; the latter while nodes are still to be asked
RETRY = 60.0  # seconds until the next attempt after jobs could not be submitted, failed, or had to wait
_LARGEST = 1 << 28  # bytes of the configuration file
_GLOBAL = "cluster/BGL"


class StoragePolls:
    """Keeps the storage of the model up to date. ``update`` takes the new storage.

    ``poll_configuration`` returns once Ganeti's configuration has been polled again. ``file`` is Ganeti's
    configuration file.
    """

    def __init__(
        self,
        file: str,
        settings: Settings,
        client: Callable[[], LuxiClient],
        model: Callable[[], Model],
        update: Callable[[KnownStorage], Awaitable[None]],
        poll_configuration: Callable[[], Awaitable[object]],
    ) -> None:
        self._settings = settings
        self._file = file
        self._client = client
        self._model = model
        self._update = update
        self._poll_configuration = poll_configuration
        self._polls = PollStatistics()
        self._file_version: tuple[int, ...] | None = None
        self._file_error: str | None = None  # of this version
        self._readable = False
        self._nodes_asked: dict[str, float] = {}  # when, by node
        self._shared_asked = -inf  # when one node was asked for the pools of all
        self._disks_asked: dict[
            str, tuple[tuple[Disk, ...], float]
        ] = {}  # for which disks and when, by instance
        self._probed: dict[DesiredUnit, tuple[tuple[str, ...], float]] = {}  # by which command, and when
        self._units_requested = False
        self._not_before = 0.0
        self._begun: float | None = None  # when the first node was asked
        self._unfinished = False  # whether the next round follows after a short pause

    def request_units(self) -> None:
        """Record that a request names other units than the default ones."""
        self._units_requested = True

    @property
    def _seconds(self) -> float:
        """The time between two polls of a node."""
        return self._settings.now.storage_seconds

    @property
    def incomplete(self) -> bool:
        """Whether nodes must still be asked for their units, now or once units are needed."""
        return self._settings.now.storage != "never" and not self._model().storage.complete

    def status(self) -> dict[str, Any]:
        """Return the settings, the state of the data, and the statistics of the polls."""
        known = self._model().storage
        return {
            "mode": self._settings.now.storage,
            "needed": self._needed(self._model().cluster),
            "configuration_file": self._readable,
            "nodes": len(known.reports),
            "complete": known.complete,
            **self._polls.status(),
        }

    async def run(self) -> None:
        """Poll until cancelled."""
        async with self._client() as client:
            while True:
                self._unfinished = False
                try:
                    await self._round(client)
                except HtoolsError as error:
                    self._note_error(str(error))
                except Exception as defect:  # of ours or of Ganeti's; decisions go on with the known storage
                    _log.exception("storage not polled")
                    self._note_error(f"{type(defect).__name__}: {on_one_line(str(defect))}")
                await trio.sleep(SHORT_PAUSE if self._unfinished else PAUSE)

    def _note_error(self, error: str) -> None:
        if error != self._polls.error:
            _log.warning("storage not polled", error=error)
        self._polls.error = error
        self._polls.failed += 1

    async def _round(self, client: LuxiClient) -> None:
        """Poll what is due. Raises HtoolsError."""
        known = self._model().storage
        if known.pools != self._settings.now.pool:
            await self._update(revise_storage(known, pools=self._settings.now.pool))
            known = self._model().storage
        await self._probe_pools()
        never = self._settings.now.storage == "never"
        if never and not known.pools:  # the use of configured pools needs the configuration
            self._file_version = self._polls.error = None
            await self._forget({})
            return
        if self._model().cluster is None:
            self._unfinished = True
            return
        await self._read_configuration()
        if never or not self._needed(self._model().cluster):
            await self._forget(self._model().storage.disks)
            self._polls.error = self._file_error  # nothing else is asked now
            return
        now = trio.current_time()
        if now >= self._not_before:
            self._not_before = now + RETRY
            if not self._readable:
                await self._ask_disks(client)
            await self._ask_nodes(client)
            self._not_before = now

    async def _probe_pools(self) -> None:
        """Run the probes of pools that are due, at the same time."""
        known, cluster, now = self._model().storage, self._model().without_reservations, trio.current_time()
        commands = {pool.unit: pool.probe for pool in known.pools if pool.probe}
        self._probed = {unit: when for unit, when in self._probed.items() if when[0] == commands.get(unit)}
        old = now - self._seconds
        due = [unit for unit in commands if unit not in self._probed or self._probed[unit][1] <= old]
        kept = {unit: report for unit, report in known.probes.items() if unit in self._probed}
        if cluster is None or not (due or len(kept) < len(known.probes)):
            return
        before, found = self._used_of_pools(), dict[DesiredUnit, UnitSpace]()

        async def measure(unit: DesiredUnit) -> None:
            try:
                found[unit] = await probe(commands[unit])
            except DataError as error:
                _log.warning("pool not probed", pool=str(unit), error=str(error))

        async with open_nursery() as nursery:
            for unit in due:
                nursery.start_soon(measure, unit)
        again = now - max(0.0, self._seconds - RETRY)  # of a probe that failed
        self._probed |= {unit: (commands[unit], now if unit in found else again) for unit in due}
        after = self._used_of_pools()
        for unit, space in found.items():
            kept[unit] = _least_report({unit: space}, before, after, now)
        await self._update(revise_storage(self._model().storage, probes=kept))

    async def _forget(self, disks: DisksByInstance) -> None:
        """Forget the reports of nodes, and all disks but these."""
        self._begun = None
        self._nodes_asked.clear()
        self._shared_asked = -inf
        self._disks_asked.clear()
        known = self._model().storage
        if known.reports or known.disks != disks:
            nothing = StorageReport({}, {}, 0.0)
            await self._update(revise_storage(known, disks, {}, complete=False, shared=nothing))

    def _needed(self, cluster: Cluster | None) -> bool:
        if self._settings.now.storage == "when-needed":
            return self._units_requested or (cluster is not None and names_other_units(cluster))
        return self._settings.now.storage == "always"

    async def _read_configuration(self) -> None:
        """Read Ganeti's configuration if it has changed. Raises DataError."""
        try:
            found = os.stat(self._file)
            version = (found.st_ino, found.st_size, found.st_mtime_ns)
            if version == self._file_version:
                return
            data = await run_by_size(found.st_size, lambda: read_regular_file(self._file, _LARGEST))
        except OSError as error:
            if self._readable or self._file_version is None:
                _log.info("Ganeti's configuration not read", file=self._file, error=error.strerror)
            self._readable, self._file_version = False, ()
            return
        self._readable, self._file_version, self._file_error = True, version, None
        try:
            disks = await run_by_size(len(data), lambda: ganeti_storage.configured_disks(data))
        except DataError as error:
            self._file_error = str(error)
            raise
        _log_problems(disks.wrong)
        await self._update(revise_storage(self._model().storage, disks.disks))

    async def _ask_disks(self, client: LuxiClient) -> None:
        """Ask for the disks of a few instances that are new or have changed. Raises HtoolsError."""
        model, now = self._model(), trio.current_time()
        if model.without_storage is None:
            return
        known, rows = model.storage.disks, {row.name: row for row in model.without_storage.instances}
        changed = [name for name, row in rows.items() if _differ(row, known.get(name, ()))]
        # DisksByInstance that were asked for in vain are not asked for again at once.
        late = now - self._seconds
        asked = {name: each for name, each in self._disks_asked.items() if name in rows and each[1] > late}
        new = [name for name in changed if name not in asked or asked[name][0] is not rows[name].disks]
        self._disks_asked = asked | {name: (rows[name].disks, now) for name in new[:INSTANCES]}
        if not new:
            return
        found = await query_disk_locations(client, new[:INSTANCES], model.without_storage, SECONDS)
        _log_problems(found.wrong)
        present = {name: disks for name, disks in known.items() if name in rows}
        await self._update(revise_storage(self._model().storage, {**present, **found.disks}))

    async def _ask_nodes(self, client: LuxiClient) -> None:
        """Ask a few nodes for their units, the longest waiting ones first. Raises HtoolsError."""
        now, cluster = trio.current_time(), self._model().cluster
        if cluster is None:
            return
        kinds = queryable_types(cluster)
        if not self._model().storage.kinds >= {*kinds}:
            await self._forget(self._model().storage.disks)
        names = [node.name for node in cluster.nodes if node.t_mem]
        self._nodes_asked = {name: when for name, when in self._nodes_asked.items() if name in set(names)}
        due = [name for name in names if self._nodes_asked.get(name, -self._seconds) + self._seconds <= now]
        if self._begun is None:
            self._begun = now
        if not self._model().storage.complete and (not due or now - self._begun > self._seconds):
            await self._update(revise_storage(self._model().storage, complete=True))
        if not due:
            return
        locked = await _locked(client)
        free = [name for name in due if name not in locked]
        some = sorted(free, key=lambda name: self._nodes_asked.get(name, -1.0))[:NODES]
        if not some:
            return
        await self._poll_configuration()
        before, pools_before = self._used(), self._used_of_pools()
        outdated = now - self._shared_asked >= self._seconds
        reports, pools, wrong = await query_units(client, some, kinds, SECONDS, outdated)
        await self._poll_configuration()
        _log_problems(wrong)
        self._nodes_asked |= dict.fromkeys(some, now)
        self._polls.error = None
        self._polls.done += 1
        self._polls.recent.append(round((trio.current_time() - now) * 1000, 3))
        known = add_reports(self._model().storage, some, reports, (before, self._used()), now)
        if pools:
            self._shared_asked = now
            shared = _least_report(pools, pools_before, self._used_of_pools(), now)
            known = revise_storage(known, shared=shared)
        await self._update(revise_storage(known, kinds=frozenset(kinds)))
        self._unfinished = True

    def _used_of_pools(self) -> Mapping[DesiredUnit, int]:
        cluster = self._model().without_reservations
        return used_pools(cluster) if cluster else {}

    def _used(self) -> UsedStorage:
        cluster = self._model().cluster
        return used_storage(cluster) if cluster else {}


def _least_report(
    rooms: Mapping[DesiredUnit, UnitSpace],
    before: Mapping[DesiredUnit, int],
    after: Mapping[DesiredUnit, int],
    asked: float,
) -> StorageReport:
    """Return a report of pools with the least that disks took of them just before and just after."""
    return StorageReport(rooms, {unit: min(before.get(unit, 0), after.get(unit, 0)) for unit in rooms}, asked)


def _differ(row: Instance, disks: Sequence[Disk]) -> bool:
    """Whether the disks of an instance differ from the known ones."""
    return [disk.size for disk in disks] != [disk.size for disk in row.disks]


def _log_problems(lines: Collection[str]) -> None:
    for line in lines:
        _log.warning("storage data ignored", error=line)


async def _locked(client: LuxiClient) -> frozenset[str]:
    """Return the names of nodes whose locks jobs hold or wait for. Raises LuxiError."""
    locks = await queries.query(client, "lock", ("name", "mode", "pending"))
    taken = {
        str(lock.values.get("name"))
        for lock in locks
        if lock.values.get("mode") == "exclusive" or lock.values.get("pending")
    }
    if not taken:
        return frozenset()
    nodes = await queries.query(client, "node", ("name", "uuid"))
    locked = {f"node/{node.values.get('uuid')}": str(node.values.get("name")) for node in nodes}
    unclear = any(lock.startswith("node/") and lock not in locked for lock in taken)  # the lock of all nodes
    everything = unclear or _GLOBAL in taken
    return frozenset(name for lock, name in locked.items() if everything or lock in taken)
