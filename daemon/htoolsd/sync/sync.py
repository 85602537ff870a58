"""Synchronisation: the model follows Ganeti over LUXI while this node is the master.

The configuration is polled every few seconds, since luxid has it in memory. For live data luxid asks every
node. Live data is therefore polled rarely, and in addition when jobs have ended, when nodes appear, and on
request. The nodes of instances that have changed, or of which a job has ended, are polled at once. Each of
these polls has a connection of its own, since a node that does not answer may block luxid for minutes.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from math import inf
from typing import Any, Protocol

import structlog
import trio

from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import PATIENCE, AnswerError, LuxiClient, LuxiError, NoAnswerError
from ganeti_htools.luxi.queries import QueryRow
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError, on_one_line
from ganeti_htools.model.ganeti_version import rules_of
from ganeti_htools.model.load import LoadProfile
from ganeti_htools.nursery import open_nursery
from ganeti_htools.sources.source import describe_updating
from htoolsd.config.settings import Settings
from htoolsd.events import EventStream
from htoolsd.sync.acting import ActingRight
from htoolsd.sync.job_queue import (
    OPCODE_FIELDS,
    STATUS_FIELDS,
    JobQueue,
    PendingWork,
    after_poll,
    ended_subjects,
    opcode_filter,
    pending_work,
    status_filter,
)
from htoolsd.sync.model import (
    CONFIGURATION,
    LIVE,
    UPDATES,
    Model,
    nodes_without_live_data,
    note_ended_jobs,
    set_load,
    set_reservations,
    set_storage,
    set_tables,
)
from htoolsd.sync.node_storage import revise_storage
from htoolsd.sync.polls import LuxidState, Polled, PollStatistics, RoleChanged
from htoolsd.sync.requests import table_requests
from htoolsd.sync.reserved_room import Reservations, update_reservations
from htoolsd.sync.standby import StandbyFile
from htoolsd.sync.this_node import ThisNode
from htoolsd.sync.trigger import Trigger
from htoolsd.threads import ROW_BYTES, Result, run_by_size

_log = structlog.get_logger()

CONFIGURATION_PATIENCE = 60.0  # seconds for an answer for which luxid asks no nodes
FRESH_PATIENCE = 10.0  # seconds that a client waits at most for each kind of the newest data
RETRY = 30.0  # seconds until the next attempt after a poll has failed
_BUSY = 30  # jobs that end all the time cause at most this many times the usual polls for live data
_RECENT = 10  # models that are kept, so that a client can refer to the one that it has read

Connect = Callable[[str], Awaitable[trio.abc.Stream]]


class NotSyncedError(LuxiError):
    """The model could not be brought up to date."""


class JobFollower(Protocol):
    """The claims, as far as they follow Ganeti's jobs."""

    def needs_queue(self) -> bool:
        """Whether the opcodes of unfinished jobs matter."""

    def check(self, pending: PendingWork) -> None:
        """Take note of the opcodes of the unfinished jobs."""


class Sync:
    """Keeps ``model`` up to date. A model never changes: new data makes another one.

    ``node`` knows whether it is the master. ``events`` get each poll and each change of the role,
    ``claims`` the opcodes of unfinished jobs. Durations are in seconds. ``standby_file`` keeps the figures
    that nodes last reported.
    """

    def __init__(
        self,
        path: str,
        node: ThisNode,
        settings: Settings,
        events: EventStream,
        claims: JobFollower | None = None,
        connect: Connect | None = None,
        standby_file: str = "",
    ) -> None:
        self.luxi = LuxidState(path)
        self.model = Model()
        self._models: deque[Model] = deque(maxlen=_RECENT)
        self.master: bool | None = None
        self._role_changed = trio.Event()  # another one follows
        self._rival: int | None = None  # the process of another daemon that acts on this luxid
        self._acting = ActingRight(path)
        self.node = node
        self._settings = settings
        self.events = events
        self._claims = claims
        self._connect = connect
        self._triggers = {kind: Trigger() for kind in (CONFIGURATION, LIVE, UPDATES)}
        self._polls = {kind: PollStatistics() for kind in self._triggers}
        self._requests = table_requests()
        self._changing = trio.Lock()
        self._live_begun = 0.0
        self._queue: JobQueue | None = None
        self._work: PendingWork | None = None
        self._without_live_data: frozenset[str] = frozenset()
        self._standby_file = StandbyFile(standby_file)

    @property
    def _periods(self) -> Mapping[str, float]:
        """The intervals of polls, in seconds."""
        return {CONFIGURATION: self._settings.now.config_seconds, LIVE: self._settings.now.live_seconds}

    def ages(self) -> dict[str, float]:
        """Return the seconds since each kind of data was polled; kinds that never were are missing."""
        return self.model.ages(trio.current_time())

    @property
    def cluster_name(self) -> str | None:
        """The cluster's name, None while it is not known."""
        return self.model.name or self.node.ssconf.cluster()

    def own_cluster(self) -> str | None:
        """Return the cluster's name, None if another node or daemon acts on it."""
        other = self.obstacle() or self.node.ssconf.is_other_node_master()
        return None if other else self.cluster_name

    @property
    def led_cluster(self) -> Cluster | None:
        """The cluster for plans and tools; None while it is unknown, and on other nodes than the master."""
        return self.model.available if self.master else None

    def obstacle(self) -> str | None:
        """Return why this daemon must not change the cluster; None if it may."""
        if self.master is False:
            return "this is not the master node"
        self._look_for_rival()
        if self._rival is None:
            return None
        process = f" (process {self._rival})" if self._rival else ""
        return f"another htoolsd{process} acts on {self.luxi.path}; this one only reads"

    def _look_for_rival(self) -> None:
        before, self._rival = self._rival, self._acting.rival()
        if self._rival is not None and before is None:
            _log.error("another htoolsd acts on luxid", process=self._rival, path=self.luxi.path)
        elif self._rival is None and before is not None:
            _log.info("no other htoolsd acts on luxid any more")

    @property
    def late(self) -> bool:
        """Whether the model is missing, older than the polls should leave it, or not updated any more."""
        ages = self.ages()
        old = any(ages.get(kind, inf) > 2 * period + 10 for kind, period in self._periods.items())
        return old or self.luxi.state != "reachable"

    def status(self) -> dict[str, Any]:
        """Return figures of the model and of its polls."""
        cluster = self.model.cluster
        return {
            "name": self.model.name,
            "master": self.master,
            "obstacle": self.obstacle(),
            "nodes": len(cluster.nodes) if cluster else None,
            "instances": len(cluster.instances) if cluster else None,
            "ganeti_rules": rules_of(cluster.ganeti).name if cluster else None,
            "silent": list(self.model.silent),
            "updating": self.model.updating,
            "ages": self.ages(),
            "late": self.late,
            "generations": self.model.generations,
            "unfinished_jobs": len(self._queue.unfinished) if self._queue else None,
            "jobs": list(self._queue.listed) if self._queue else [],
            "polls": {kind: polls.status() for kind, polls in self._polls.items()},
        }

    def summary(self) -> str:
        """Return the state in a few words."""
        cluster = self.model.cluster
        known = (
            f"{len(cluster.nodes)} nodes, {len(cluster.instances)} instances" if cluster else "no cluster yet"
        )
        return f"{known}; {self.luxi.error}" if self.luxi.error else known

    def recent_model(self, generations: object) -> Model | None:
        """Return the recent model with these generations, the newest for None.

        None if no model has them.
        """
        if generations is None:
            return self.model
        return next((model for model in self._models if model.generations == generations), None)

    def client(self) -> LuxiClient:
        """Return a connection to luxid of the caller's own."""
        return LuxiClient(self.luxi.path, self._connect)

    def request_live_data(self) -> None:
        """Poll live data at once, for example because a job has ended."""
        self._triggers[LIVE].by(trio.current_time())

    async def poll_configuration(self) -> str | None:
        """Return once the configuration has been polled after the call, or the reason why it was not.

        Returns at once if the last poll failed, and in any case after a few seconds.
        """
        polls = self._polls[CONFIGURATION]
        if self.master is not False and polls.error is None:
            with trio.move_on_after(FRESH_PATIENCE) as waiting:
                await self._triggers[CONFIGURATION].rerun()
            if waiting.cancelled_caught:
                return f"configuration: no answer within {FRESH_PATIENCE:g} s"
        return polls.error if self.master else "this is not the master node"

    async def poll_updates(self) -> str | None:
        """Return once no figures are older than their instances, or the reason why some are.

        Returns after a few seconds in any case.
        """
        with trio.move_on_after(FRESH_PATIENCE):
            while self.master and self.model.updating:
                await self._triggers[UPDATES].rerun()
                if (error := self._polls[UPDATES].error) is not None:
                    return error
        return f"no answer within {FRESH_PATIENCE:g} s" if self.model.updating else None

    async def poll_all(self) -> None:
        """Return once everything has been polled after the call. Raises NotSyncedError."""
        if self.master is not False:
            async with open_nursery() as nursery:
                for kind in self._periods:
                    nursery.start_soon(self._triggers[kind].rerun)
        if not self.master:
            raise NotSyncedError("this is not the master node")
        for kind in self._periods:
            if (error := self._polls[kind].error) is not None:
                raise NotSyncedError(f"{kind}: {error}")
        if (why := await self.poll_updates()) is not None:
            raise NotSyncedError(describe_updating(self.model.updating, why))

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        self.model = replace(self.model, standby=await self._standby_file.read())
        try:
            async with open_nursery() as nursery:
                nursery.start_soon(self._standby_file.run)
                nursery.start_soon(self._follow_role)
                await self.as_master(self._follow)
        finally:
            self._acting.close()

    async def as_master(self, work: Callable[[], Awaitable[None]]) -> None:
        """Work while this node is the master, and again whenever it becomes the master, until cancelled."""
        while True:
            while not self.master:
                await self._role_changed.wait()
            async with open_nursery() as reign:
                reign.start_soon(work)
                while self.master:
                    await self._role_changed.wait()
                reign.cancel_scope.cancel()

    async def _follow(self) -> None:
        try:
            async with open_nursery() as nursery:
                nursery.start_soon(self._poll, CONFIGURATION, self._ask_configuration)
                nursery.start_soon(self._poll, LIVE, self._ask_live)
                nursery.start_soon(self._poll, UPDATES, self._ask_updates)
                nursery.start_soon(self._follow_settings)
        finally:
            # The known jobs mean nothing when this node becomes the master again.
            self._queue = self._work = None
            for trigger in self._triggers.values():
                trigger.give_up()

    async def _follow_settings(self) -> None:
        """Poll at the intervals of changed settings."""
        while True:
            await self._settings.changed.wait()
            for kind, seconds in self._periods.items():
                self._triggers[kind].by(trio.current_time() + seconds)

    async def _follow_role(self) -> None:
        while True:
            master = await self.node.leads()
            if master is not self.master:
                self.master = master
                self._role_changed.set()
                self._role_changed = trio.Event()
                _log.info("role", master=master)
                self.events.publish(RoleChanged(master))
            if not master:
                reason = "the master node is unknown" if master is None else "this is not the master node"
                self.luxi.update("not asked", reason)
            await trio.sleep(self._periods[CONFIGURATION])

    async def _poll(self, kind: str, ask: Callable[[LuxiClient], Awaitable[None]]) -> None:
        trigger = self._triggers[kind]
        async with self.client() as client:
            while True:
                await trigger.begin()
                begun = trio.current_time()
                failed = await self._try(kind, ask(client))
                period = self._periods.get(kind, inf)
                trigger.by(trio.current_time() + min(period, RETRY) if failed else begun + period)
                trigger.end()

    async def _try(self, kind: str, asking: Awaitable[None]) -> bool:
        """Await a poll and record its result; return whether it failed."""
        polls, begun = self._polls[kind], trio.current_time()
        error: HtoolsError | None = None
        try:
            await asking
        except HtoolsError as failure:
            error = failure
        except Exception as defect:  # a defect of ours or of Ganeti's; decisions go on with an old model
            _log.exception("poll failed", kind=kind)
            error = HtoolsError(f"{type(defect).__name__}: {on_one_line(str(defect))}")
        text = str(error) if error else None
        if text is not None and text != polls.error:
            _log.warning("poll failed", kind=kind, error=text)
        polls.error = text
        if error:
            polls.failed += 1
        else:
            polls.done += 1
            polls.recent.append(round((trio.current_time() - begun) * 1000, 3))
        if kind == CONFIGURATION:
            self._note_luxi(error)
        return error is not None

    def _note_luxi(self, error: HtoolsError | None) -> None:
        was = self.luxi.state
        if isinstance(error, NoAnswerError) and not isinstance(error, AnswerError):
            self.luxi.update("unreachable", str(error))
        else:
            self.luxi.update("reachable")
            if was == "unreachable":
                self.request_live_data()

    async def _ask_configuration(self, client: LuxiClient) -> None:
        """Raises LuxiError, DataError."""
        self._look_for_rival()
        begun = trio.current_time()
        tables = {
            name: await request.ask(client, CONFIGURATION_PATIENCE)
            for name, request in self._requests[CONFIGURATION].items()
        }
        asked = trio.current_time()
        jobs = await queries.query(client, "job", STATUS_FIELDS, status_filter(self._queue))
        await self._set_tables(CONFIGURATION, tables, begun)
        if ended := ended_subjects(self._queue, jobs):
            await self._change(self._rows(), lambda: note_ended_jobs(self.model, ended, asked))
        known = self._queue.unfinished if self._queue else frozenset[int]()
        self._queue, became_empty = after_poll(self._queue, jobs)
        if became_empty:
            self._triggers[LIVE].by(self._live_begun + self._periods[LIVE] / _BUSY)
        if self.model.answers and not nodes_without_live_data(self.model) <= self._without_live_data:
            self.request_live_data()
        if self.model.updating:
            self._triggers[UPDATES].by(asked)
        # The tables may not show yet what a job did that has just ended: it counts until the next poll.
        recent = replace(self._queue, unfinished=self._queue.unfinished | known)
        await self._ask_work(client, recent, begun)

    async def _ask_work(self, client: LuxiClient, queue: JobQueue, asked: float) -> None:
        """Pass on the opcodes of unfinished jobs, if they are needed. Raises LuxiError."""
        if self._claims is None or not self._claims.needs_queue():
            self._work = None
            return
        unknown = opcode_filter(queue, self._work)
        jobs = await queries.query(client, "job", OPCODE_FIELDS, unknown) if unknown else []
        self._work = pending_work(queue, self._work, jobs, asked)
        self._claims.check(self._work)

    async def _ask_live(self, client: LuxiClient) -> None:
        """Raises LuxiError, DataError."""
        begun = self._live_begun = trio.current_time()
        tables = {name: await request.ask(client, PATIENCE) for name, request in self._requests[LIVE].items()}
        await self._set_tables(LIVE, tables, begun)
        if self.model.answers:
            self._without_live_data = nodes_without_live_data(self.model)

    async def _ask_updates(self, client: LuxiClient) -> None:
        """Ask nodes whose figures are older than their instances. Raises LuxiError, DataError."""
        nodes, begun = self.model.updating, trio.current_time()
        if not nodes:
            return
        tables = {
            name: await queries.query(client, kind, fields, ["|", *(["=", key, node] for node in nodes)])
            for name, kind, fields, key in (
                ("live_nodes", "node", queries.NODE_LIVE_FIELDS, "name"),
                ("live_instances", "instance", queries.INSTANCE_LIVE_FIELDS, "pnode"),
            )
        }
        await self._set_tables(LIVE, tables, begun, nodes)

    async def _set_tables(
        self, kind: str, tables: dict[str, list[QueryRow]], asked: float, nodes: Collection[str] | None = None
    ) -> None:
        before = self.model.silent
        rows = self._rows() if nodes else sum(map(len, tables.values()))
        await self._change(rows, lambda: set_tables(self.model, kind, tables, asked, nodes))
        if self.model.silent != before:
            _log.warning("nodes do not report", nodes=self.model.silent)
        self.events.publish(Polled(self.model))

    async def revise_storage(self, **changes: Any) -> None:
        """Have the model count changes of the known storage (fields of KnownStorage)."""
        new = revise_storage(self.model.storage, **changes)
        await self._change(self._rows(), lambda: set_storage(self.model, new))
        self.events.publish(Polled(self.model))

    async def reserve(self, reserved: Reservations) -> None:
        """Have decisions leave these reservations free."""
        new = update_reservations(self.model.reservations, reserved)
        if new is not self.model.reservations:
            await self._change(self._rows(), lambda: set_reservations(self.model, new))

    async def count_load(self, profiles: Mapping[str, LoadProfile] | None) -> None:
        """Have plans and tools count this measured load; none with None."""
        await self._change(self._rows(), lambda: set_load(self.model, profiles))

    async def _change(self, rows: int, change: Callable[[], Model]) -> None:
        """Change the model, which takes the time of so many rows. Only one change is made at a time."""
        async with self._changing:
            before = self.model.standby
            self.model = await run_by_size(rows * ROW_BYTES, change)
            known = self._models[-1].generations if self._models else None
            if self.model.asked and self.model.generations != known:
                self._models.append(self.model)
            if self.model.standby is not before and self.model.cluster:
                self._standby_file.put(self.model.standby, self.model.cluster)

    async def compute(self, work: Callable[[], Result]) -> Result:
        """Return the result of work that grows with the cluster, beside the event loop."""
        return await run_by_size(self._rows() * ROW_BYTES, work)

    def _rows(self) -> int:
        return len(self.model.cluster.instances) if self.model.cluster else 0
