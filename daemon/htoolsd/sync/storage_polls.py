"""Polls for storage: nodes (by jobs) now and then, with those for disks and pools.

No job is submitted unless the daemon's configuration asks for it. A few nodes are asked at a time, and only
while no job works on them, since a job that asks holds locks that others need.
"""

from math import inf
from typing import Any

import structlog
import trio

from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError, on_one_line
from ganeti_htools.model.known_storage import DisksByInstance, queryable_types
from ganeti_htools.sources.storage_jobs import NODES, SECONDS, query_units
from htoolsd.config.settings import Settings
from htoolsd.sync.disk_polls import DiskPolls
from htoolsd.sync.node_storage import (
    StorageReport,
    add_reports,
    names_other_units,
    storage_report,
    used_pools,
    used_storage,
)
from htoolsd.sync.polls import PollStatistics, log_ignored
from htoolsd.sync.pool_probes import RETRY, PoolProbes
from htoolsd.sync.sync import Sync

_log = structlog.get_logger()

PAUSE, SHORT_PAUSE = 5.0, 1.0  # seconds between two rounds; the latter while nodes are still to be asked
_GLOBAL = "cluster/BGL"


class StoragePolls:
    """Keeps the storage of the model up to date. ``file`` is Ganeti's configuration file."""

    def __init__(self, file: str, settings: Settings, sync: Sync) -> None:
        self._settings = settings
        self._sync = sync
        self._disks = DiskPolls(file, settings, sync)
        self._pools = PoolProbes(settings, sync)
        self._polls = PollStatistics()
        self._nodes_asked: dict[str, float] = {}  # when, by node
        self._shared_asked = -inf  # when one node was asked for the pools of all
        self._units_requested = False
        self._not_before = 0.0
        self._begun: float | None = None  # when the first node was asked
        self._unfinished = False  # whether the next round follows after a short pause

    def request_units(self) -> None:
        """Record that a request names other units than the default ones."""
        self._units_requested = True

    @property
    def incomplete(self) -> bool:
        """Whether nodes must still be asked for their units, now or once units are needed."""
        return self._settings.now.storage != "never" and not self._sync.model.storage.complete

    def status(self) -> dict[str, Any]:
        """Return the settings, the state of the data, and the statistics of the polls."""
        known = self._sync.model.storage
        return {
            "mode": self._settings.now.storage,
            "needed": self._needed(self._sync.model.cluster),
            "configuration_file": self._disks.readable,
            "nodes": len(known.reports),
            "complete": known.complete,
            **self._polls.status(),
        }

    async def run(self) -> None:
        """Poll while this node is the master, until cancelled."""
        await self._sync.as_master(self._poll)

    async def _poll(self) -> None:
        async with self._sync.client() as client:
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
        sync, settings = self._sync, self._settings.now
        if sync.model.storage.pools != settings.pool:
            await sync.revise_storage(pools=settings.pool)
        await self._pools.poll()
        never = settings.storage == "never"
        if never and not settings.pool:  # the use of configured pools needs the configuration
            self._disks.forget()
            self._polls.error = None
            await self._forget({})
            return
        if sync.model.cluster is None:
            self._unfinished = True
            return
        await self._disks.read()
        if never or not self._needed(sync.model.cluster):
            await self._forget(sync.model.storage.disks)
            self._polls.error = self._disks.error  # nothing else is asked now
            return
        now = trio.current_time()
        if now >= self._not_before:
            self._not_before = now + RETRY
            if not self._disks.readable:
                await self._disks.ask(client)
            await self._ask_nodes(client)
            self._not_before = now

    async def _forget(self, disks: DisksByInstance) -> None:
        """Forget the reports of nodes, and all disks but these."""
        self._begun = None
        self._nodes_asked.clear()
        self._shared_asked = -inf
        self._disks.forget_asked()
        known = self._sync.model.storage
        if known.reports or known.disks != disks:
            nothing = StorageReport({}, {}, 0.0)
            await self._sync.revise_storage(disks=disks, reports={}, complete=False, shared=nothing)

    def _needed(self, cluster: Cluster | None) -> bool:
        if self._settings.now.storage == "when-needed":
            return self._units_requested or (cluster is not None and names_other_units(cluster))
        return self._settings.now.storage == "always"

    async def _ask_nodes(self, client: LuxiClient) -> None:
        """Ask a few nodes for their units, the longest waiting ones first. Raises HtoolsError."""
        sync, now, seconds = self._sync, trio.current_time(), self._settings.now.storage_seconds
        cluster = sync.model.cluster
        if cluster is None:
            return
        kinds = queryable_types(cluster)
        if not sync.model.storage.kinds >= {*kinds}:
            await self._forget(sync.model.storage.disks)
        names = [node.name for node in cluster.nodes if node.t_mem]
        self._nodes_asked = {name: when for name, when in self._nodes_asked.items() if name in set(names)}
        due = [name for name in names if self._nodes_asked.get(name, -seconds) + seconds <= now]
        if self._begun is None:
            self._begun = now
        if not sync.model.storage.complete and (not due or now - self._begun > seconds):
            await sync.revise_storage(complete=True)
        if not due:
            return
        locked = await _locked(client)
        free = [name for name in due if name not in locked]
        some = sorted(free, key=lambda name: self._nodes_asked.get(name, -1.0))[:NODES]
        if not some:
            return
        await sync.poll_configuration()
        before = sync.model
        outdated = now - self._shared_asked >= seconds
        found, pools, wrong = await query_units(client, some, kinds, SECONDS, outdated)
        await sync.poll_configuration()
        after = sync.model
        log_ignored(wrong)
        self._nodes_asked |= dict.fromkeys(some, now)
        self._polls.error = None
        self._polls.done += 1
        self._polls.recent.append(round((trio.current_time() - now) * 1000, 3))
        taken = await sync.compute(lambda: (used_storage(before.cluster), used_storage(after.cluster)))
        reports = add_reports(after.storage, some, found, taken, now)
        shared = after.storage.shared
        if pools:
            self._shared_asked = now
            clusters = before.without_reservations, after.without_reservations
            was, is_now = await sync.compute(lambda: [*map(used_pools, clusters)])
            shared = storage_report(pools, was, is_now, now)
        await sync.revise_storage(reports=reports, shared=shared, kinds=frozenset(kinds))
        self._unfinished = True


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
