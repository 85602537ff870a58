"""Storage asked for: the configuration file whenever it has changed, nodes every few minutes, by jobs.

Nothing enters Ganeti's queue unless the daemon's configuration asks for it. A few nodes are asked at a time,
and not while somebody works on them: a job that asks keeps others from their locks.
"""

import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Literal, NamedTuple

import structlog
import trio

from ganeti_htools.backends import storage
from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import Client
from ganeti_htools.model.cluster import Cluster, Disk, Instance
from ganeti_htools.model.errors import HtoolsError, on_one_line
from ganeti_htools.model.known_storage import DisksByInstance, queryable_types
from ganeti_htools.model.storage import Pool
from ganeti_htools.sources.storage import INSTANCES, NODES, SECONDS, disks_of, units_of
from htoolsd import regular_file
from htoolsd.sync.asking import aside
from htoolsd.sync.model import Model
from htoolsd.sync.polls import Polls
from htoolsd.sync.storage import Storage, others_named, reported, revised, taken_of

_log = structlog.get_logger()

PAUSE, SHORT_PAUSE = 5.0, 1.0  # seconds between two looks; the latter if nodes are still to be asked or known
RETRY = 60.0  # seconds until the next attempt after jobs could not be submitted, failed, or had to wait
_LARGEST = 1 << 28  # bytes of the configuration file
_GLOBAL = "cluster/BGL"


Mode = Literal["never", "when-needed", "always"]


class Settings(NamedTuple):
    """When nodes are asked for their units, and how many seconds later again; pools that we are told of."""

    mode: Mode = "never"
    seconds: float = 600.0
    pools: tuple[Pool, ...] = ()


class StoragePolls:
    """Keeps what the model knows of storage up to date; ``learn`` takes what is new.

    ``renew`` returns once the configuration has been asked for again. ``file`` is Ganeti's own.
    """

    def __init__(
        self,
        file: str,
        client: Callable[[], Client],
        model: Callable[[], Model],
        learn: Callable[[Storage], Awaitable[None]],
        renew: Callable[[], Awaitable[object]],
    ) -> None:
        self.settings = Settings()
        self._file = file
        self._client = client
        self._model = model
        self._learn = learn
        self._renew = renew
        self._polls = Polls()
        self._seen: tuple[int, ...] | None = None
        self._readable = False
        self._tried: dict[str, float] = {}
        self._asked: dict[str, tuple[tuple[Disk, ...], float]] = {}
        self._wanted = False
        self._not_before = 0.0
        self._begun: float | None = None
        self._more = False

    def want(self) -> None:
        """Note that somebody has asked for another unit than the default ones."""
        self._wanted = True

    @property
    def to_be_asked(self) -> bool:
        """Whether nodes are still to be asked for their units, now or once these are needed."""
        return self.settings.mode != "never" and not self._model().storage.complete

    def status(self) -> dict[str, Any]:
        """What is asked for, and how that went."""
        known = self._model().storage
        return {
            "mode": self.settings.mode,
            "needed": self._needed(self._model().cluster),
            "configuration_file": self._readable,
            "nodes": len(known.reports),
            "complete": known.complete,
            **self._polls.status(),
        }

    async def run(self) -> None:
        """Ask until cancelled."""
        async with self._client() as client:
            while True:
                self._more = False
                try:
                    await self._look(client)
                except HtoolsError as error:
                    self._failed(str(error))
                except Exception as defect:  # of ours or of Ganeti's; decisions go on with what is known
                    _log.exception("storage not asked for")
                    self._failed(f"{type(defect).__name__}: {on_one_line(str(defect))}")
                await trio.sleep(SHORT_PAUSE if self._more else PAUSE)

    def _failed(self, error: str) -> None:
        if error != self._polls.error:
            _log.warning("storage not asked for", error=error)
        self._polls.error = error
        self._polls.failed += 1

    async def _look(self, client: Client) -> None:
        """Raises HtoolsError."""
        known = self._model().storage
        if known.pools != self.settings.pools:
            await self._learn(revised(known, pools=self.settings.pools))
            known = self._model().storage
        never = self.settings.mode == "never"
        if never and not known.pools:  # with pools, how much of them is taken
            self._seen = None
            await self._forget({})
            return
        if self._model().cluster is None:
            self._more = True
            return
        await self._read_configuration()
        if never or not self._needed(self._model().cluster):
            await self._forget(self._model().storage.disks)
            return
        now = trio.current_time()
        if now >= self._not_before:
            self._not_before = now + RETRY
            if not self._readable:
                await self._ask_disks(client)
            await self._ask_nodes(client)
            self._not_before = now

    async def _forget(self, disks: DisksByInstance) -> None:
        """Forget what nodes have told, and where disks are other than these."""
        self._begun = None
        self._tried.clear()
        self._asked.clear()
        known = self._model().storage
        if known.reports or known.disks != disks:
            await self._learn(revised(known, disks, {}, complete=False))

    def _needed(self, cluster: Cluster | None) -> bool:
        if self.settings.mode == "when-needed":
            return self._wanted or (cluster is not None and others_named(cluster))
        return self.settings.mode == "always"

    async def _read_configuration(self) -> None:
        """Read Ganeti's configuration if it has changed. Raises DataError."""
        try:
            found = os.stat(self._file)
            version = (found.st_ino, found.st_size, found.st_mtime_ns)
            if version == self._seen:
                return
            data = await aside(found.st_size, lambda: regular_file.read(self._file, _LARGEST))
        except OSError as error:
            if self._readable or self._seen is None:
                _log.info("Ganeti's configuration is not read", file=self._file, error=error.strerror)
            self._readable, self._seen = False, ()
            return
        self._readable, self._seen = True, version
        disks = await aside(len(data), lambda: storage.configured_disks(data))
        _complain(disks.wrong)
        await self._learn(revised(self._model().storage, disks.disks))

    async def _ask_disks(self, client: Client) -> None:
        """Ask for disks of a few instances that are new or have changed. Raises HtoolsError."""
        model, now = self._model(), trio.current_time()
        if model.plain is None:
            return
        known, rows = model.storage.disks, {row.name: row for row in model.plain.instances}
        changed = [name for name, row in rows.items() if _differ(row, known.get(name, ()))]
        # What was asked for in vain is not asked for at once again.
        late = now - self.settings.seconds
        asked = {name: found for name, found in self._asked.items() if name in rows and found[1] > late}
        new = [name for name in changed if name not in asked or asked[name][0] is not rows[name].disks]
        self._asked = asked | {name: (rows[name].disks, now) for name in new[:INSTANCES]}
        if not new:
            return
        found = await disks_of(client, new[:INSTANCES], model.plain, SECONDS)
        _complain(found.wrong)
        kept = {name: disks for name, disks in known.items() if name in rows}
        await self._learn(revised(self._model().storage, {**kept, **found.disks}))

    async def _ask_nodes(self, client: Client) -> None:
        """Ask a few nodes for their units, those first that were asked longest ago. Raises HtoolsError."""
        now, cluster = trio.current_time(), self._model().cluster
        if cluster is None:
            return
        names = [node.name for node in cluster.nodes if node.t_mem]
        self._tried = {name: when for name, when in self._tried.items() if name in set(names)}
        due = [
            name
            for name in names
            if self._tried.get(name, -self.settings.seconds) + self.settings.seconds <= now
        ]
        if self._begun is None:
            self._begun = now
        if not self._model().storage.complete and (not due or now - self._begun > self.settings.seconds):
            await self._learn(revised(self._model().storage, complete=True))
        if not due:
            return
        locked = await _locked(client)
        free = [name for name in due if name not in locked]
        some = sorted(free, key=lambda name: self._tried.get(name, -1.0))[:NODES]
        if not some:
            return
        await self._renew()
        before = self._taken()
        told, wrong = await units_of(client, some, queryable_types(cluster), SECONDS)
        await self._renew()
        _complain(wrong)
        self._tried |= dict.fromkeys(some, now)
        self._polls.error = None
        self._polls.done += 1
        self._polls.recent.append(round((trio.current_time() - now) * 1000, 3))
        await self._learn(reported(self._model().storage, some, told, (before, self._taken()), now))
        self._more = True

    def _taken(self) -> Any:
        cluster = self._model().cluster
        return taken_of(cluster) if cluster else {}


def _differ(row: Instance, disks: Sequence[Disk]) -> bool:
    """Whether the disks of an instance are not those that are known."""
    return [disk.size for disk in disks] != [disk.size for disk in row.disks]


def _complain(wrong: Collection[str]) -> None:
    for line in wrong:
        _log.warning("storage", error=line)


async def _locked(client: Client) -> frozenset[str]:
    """The names of nodes on which jobs work, or wait to. Raises LuxiError."""
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
    unclear = any(lock.startswith("node/") and lock not in locked for lock in taken)  # a set of locks
    everything = unclear or _GLOBAL in taken
    return frozenset(name for lock, name in locked.items() if everything or lock in taken)
