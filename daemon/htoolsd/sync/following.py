"""The model, kept in step with Ganeti over LUXI as long as this is the master node.

Configuration is asked for every few seconds: luxid has it in memory. For live data it asks every node, so
that is asked for rarely, and when something happened: when jobs have ended, when nodes appeared, when
somebody wants it. The two have connections of their own, since a node that does not answer may keep luxid
waiting for minutes.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from math import inf
from typing import Any

import structlog
import trio

from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import PATIENCE, AnswerError, Client, LuxiError, NoAnswerError
from ganeti_htools.luxi.queries import Row
from ganeti_htools.model.errors import HtoolsError, on_one_line
from htoolsd.sync import queue
from htoolsd.sync.asking import ROW, aside
from htoolsd.sync.kept import Kept, revised
from htoolsd.sync.last_seen import LastSeenFile
from htoolsd.sync.model import CONFIGURATION, LIVE, Model, keeping, learnt, unheard, with_storage
from htoolsd.sync.periodic import Trigger
from htoolsd.sync.polls import Luxi, Polls
from htoolsd.sync.storage import Storage
from htoolsd.sync.storage_polls import StoragePolls
from htoolsd.sync.tables import requests

_log = structlog.get_logger()

CONFIGURATION_PATIENCE = 60.0  # seconds for an answer that luxid need not ask nodes for
NEWS = 10.0  # seconds that a client waits at most for the newest configuration
RETRY = 30.0  # seconds until the next attempt after live data could not be read
_BUSY = 30  # even if jobs end all the time, live data is read at most this many times as often as usual
_RECENT = 10  # recent models that are kept, so that a client can refer to the one it was told of

Connect = Callable[[str], Awaitable[trio.abc.Stream]]


class NotSyncedError(LuxiError):
    """Why the model could not be brought up to date."""


class Sync:
    """Keeps ``model`` up to date. A model never changes: new data makes another one.

    ``is_master`` tells whether this is the master node, None if that cannot be told. Durations are seconds.
    ``configuration_file`` is Ganeti's own, in which it stands where disks are; in the file ``last_seen`` is
    kept what nodes had when they last reported.
    """

    def __init__(
        self,
        path: str,
        is_master: Callable[[], Awaitable[bool | None]],
        configuration_seconds: float,
        live_seconds: float,
        connect: Connect | None = None,
        tell: Callable[[str], None] = lambda _summary: None,
        configuration_file: str = "",
        last_seen: str = "",
    ) -> None:
        self.luxi = Luxi(path)
        self.model = Model()
        self._models: deque[Model] = deque(maxlen=_RECENT)
        self.master: bool | None = None
        self._is_master = is_master
        self._periods = {CONFIGURATION: configuration_seconds, LIVE: live_seconds}
        self._connect = connect
        self._tell = tell
        self._told = ""
        self._triggers = {CONFIGURATION: Trigger(), LIVE: Trigger()}
        self._polls = {CONFIGURATION: Polls(), LIVE: Polls()}
        self._requests = requests()
        self._learning = trio.Lock()
        self._live_begun = 0.0
        self.storage = StoragePolls(
            configuration_file, self.client, lambda: self.model, self._learn_storage, self.renew
        )
        self._queue: queue.Queue | None = None
        self._work: queue.Work | None = None
        self._work_wanted: Callable[[], bool] = lambda: False
        self._tell_work: Callable[[queue.Work], None] = lambda _work: None
        self._unheard: frozenset[str] = frozenset()
        self._heed: Callable[[], None] = lambda: None
        self._last_seen = LastSeenFile(last_seen)

    def ages(self) -> dict[str, float]:
        """Seconds since each kind of data was asked for; only those that were."""
        return self.model.ages(trio.current_time())

    @property
    def late(self) -> bool:
        """Whether the model is missing, older than it is meant to be, or not updated any more."""
        ages = self.ages()
        old = any(ages.get(kind, inf) > 2 * period + 10 for kind, period in self._periods.items())
        return old or self.luxi.state != "reachable"

    def status(self) -> dict[str, Any]:
        """The model in figures, and how it is kept."""
        cluster = self.model.cluster
        return {
            "master": self.master,
            "nodes": len(cluster.nodes) if cluster else None,
            "instances": len(cluster.instances) if cluster else None,
            "silent": list(self.model.silent),
            "ages": self.ages(),
            "late": self.late,
            "generations": self.model.generations,
            "unfinished_jobs": len(self._queue.unfinished) if self._queue else None,
            "polls": {kind: polls.status() for kind, polls in self._polls.items()},
            "storage": self.storage.status(),
        }

    def model_of(self, generations: object) -> Model | None:
        """The recent model with these generations, the newest for None; None if there is none."""
        if generations is None:
            return self.model
        return next((model for model in self._models if model.generations == generations), None)

    def pace(self, configuration_seconds: float, live_seconds: float) -> None:
        """Poll at these intervals from now on."""
        self._periods |= {CONFIGURATION: configuration_seconds, LIVE: live_seconds}
        for kind, trigger in self._triggers.items():
            trigger.by(trio.current_time() + self._periods[kind])

    def follow_work(self, wanted: Callable[[], bool], tell: Callable[[queue.Work], None]) -> None:
        """Have ``tell`` called after each poll, while it is ``wanted``, with what jobs have to do."""
        self._work_wanted, self._tell_work = wanted, tell

    def follow(self, heed: Callable[[], None]) -> None:
        """Have ``heed`` called whenever Ganeti has been asked."""
        self._heed = heed

    def client(self) -> Client:
        """A connection to luxid that nobody else uses."""
        return Client(self.luxi.path, self._connect)

    def want_live(self) -> None:
        """Read live data at once, for example because a job has ended."""
        self._triggers[LIVE].by(trio.current_time())

    async def renew(self) -> str | None:
        """Returns once the configuration has been read after the call, or the reason why it was not.

        Does not wait if the last attempt failed, and never waits long.
        """
        polls = self._polls[CONFIGURATION]
        if self.master is not False and polls.error is None:
            with trio.move_on_after(NEWS) as waiting:
                await self._triggers[CONFIGURATION].again()
            if waiting.cancelled_caught:
                return f"configuration: no answer within {NEWS:g} s"
        return polls.error if self.master else "this is not the master node"

    async def refresh(self) -> None:
        """Returns once everything has been read after the call. Raises NotSyncedError."""
        if self.master is not False:
            async with trio.open_nursery() as nursery:
                for trigger in self._triggers.values():
                    nursery.start_soon(trigger.again)
        if not self.master:
            raise NotSyncedError("this is not the master node")
        for kind, polls in self._polls.items():
            if polls.error is not None:
                raise NotSyncedError(f"{kind}: {polls.error}")

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        self.model = replace(self.model, last_seen=await self._last_seen.read())
        while True:
            await self._until(True)
            async with trio.open_nursery() as reign:
                reign.start_soon(self._follow, CONFIGURATION, self._ask_configuration)
                reign.start_soon(self._follow, LIVE, self._ask_live)
                reign.start_soon(self.storage.run)
                await self._until(False)
                reign.cancel_scope.cancel()
            # The jobs seen so far say nothing about the queue when the role comes back.
            self._queue = self._work = None
            for trigger in self._triggers.values():
                trigger.give_up()

    async def _until(self, master: bool) -> None:
        """Returns when this node becomes, or stops being, the master."""
        while (is_master := await self._is_master()) is not master:
            self._note_role(is_master)
            await trio.sleep(self._periods[CONFIGURATION])
        self._note_role(is_master)

    def _note_role(self, master: bool | None) -> None:
        if master is not self.master:
            self.master = master
            _log.info("role", master=master)
        if not master:
            why = "it is not known who is master" if master is None else "this is not the master node"
            self.luxi.found("not asked", why)
            self._summarise()

    async def _follow(self, kind: str, ask: Callable[[Client], Awaitable[None]]) -> None:
        trigger = self._triggers[kind]
        async with self.client() as client:
            while True:
                await trigger.begin()
                begun = trio.current_time()
                failed = await self._try(kind, ask(client))
                period = self._periods[kind]
                trigger.by(trio.current_time() + min(period, RETRY) if failed else begun + period)
                trigger.end()
                self._summarise()

    async def _try(self, kind: str, asking: Awaitable[None]) -> bool:
        """Whether it failed."""
        polls, begun = self._polls[kind], trio.current_time()
        error: HtoolsError | None = None
        try:
            await asking
        except HtoolsError as failure:
            error = failure
        except Exception as defect:  # a defect of ours or of Ganeti's; decisions go on with an old model
            _log.exception("synchronisation failed", kind=kind)
            error = HtoolsError(f"{type(defect).__name__}: {on_one_line(str(defect))}")
        told = str(error) if error else None
        if told is not None and told != polls.error:
            _log.warning("not synchronised", kind=kind, error=told)
        polls.error = told
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
            self.luxi.found("unreachable", str(error))
        else:
            self.luxi.found("reachable")
            if was == "unreachable":
                self.want_live()

    async def _ask_configuration(self, client: Client) -> None:
        """Raises LuxiError, DataError."""
        begun = trio.current_time()
        tables = {
            name: await request.ask(client, CONFIGURATION_PATIENCE)
            for name, request in self._requests[CONFIGURATION].items()
        }
        asked = trio.current_time()
        jobs = await queries.query(client, "job", queue.FIELDS, queue.asks_for(self._queue))
        self._queue, ran_empty = queue.seen(self._queue, jobs)
        if ran_empty:
            self._triggers[LIVE].by(self._live_begun + self._periods[LIVE] / _BUSY)
        await self._learn(CONFIGURATION, tables, begun)
        if self.model.answers and not unheard(self.model) <= self._unheard:
            self.want_live()
        await self._ask_work(client, self._queue, asked)

    async def _ask_work(self, client: Client, there: queue.Queue, asked: float) -> None:
        """Tell what is left to do, if that is wanted."""
        if not self._work_wanted():
            self._work = None
            return
        wanted = queue.asks_for_work(there, self._work)
        jobs = await queries.query(client, "job", queue.WORK_FIELDS, wanted) if wanted else []
        self._work = queue.work(there, self._work, jobs, asked)
        self._tell_work(self._work)

    async def _ask_live(self, client: Client) -> None:
        """Raises LuxiError, DataError."""
        begun = self._live_begun = trio.current_time()
        tables = {name: await request.ask(client, PATIENCE) for name, request in self._requests[LIVE].items()}
        await self._learn(LIVE, tables, begun)
        if self.model.answers:
            self._unheard = unheard(self.model)

    async def _learn(self, kind: str, tables: dict[str, list[Row]], asked: float) -> None:
        was = self.model.silent
        await self._change(sum(map(len, tables.values())), lambda: learnt(self.model, kind, tables, asked))
        if self.model.silent != was:
            _log.warning("silent nodes", nodes=self.model.silent)
        self._heed()

    async def _learn_storage(self, storage: Storage) -> None:
        await self._change(self._rows(), lambda: with_storage(self.model, storage))
        self._heed()

    async def keep(self, found: Kept) -> None:
        """Have decisions leave this of nodes and pools."""
        kept = revised(self.model.kept, found)
        if kept is not self.model.kept:
            await self._change(self._rows(), lambda: keeping(self.model, kept))

    async def _change(self, rows: int, change: Callable[[], Model]) -> None:
        """Change the model, which takes so many rows' time; nothing else does at the same time."""
        async with self._learning:
            was = self.model.last_seen
            self.model = await aside(rows * ROW, change)
            known = self._models[-1].generations if self._models else None
            if self.model.asked and self.model.generations != known:
                self._models.append(self.model)
            if self.model.last_seen is not was and self.model.cluster:
                await self._last_seen.write(self.model.last_seen, self.model.cluster)

    def _rows(self) -> int:
        return len(self.model.cluster.instances) if self.model.cluster else 0

    def _summarise(self) -> None:
        """Log the state in a few words, whenever it has changed."""
        cluster = self.model.cluster
        known = (
            f"{len(cluster.nodes)} nodes, {len(cluster.instances)} instances" if cluster else "no cluster yet"
        )
        summary = f"{known}; {self.luxi.error}" if self.luxi.error else known
        if summary != self._told:
            self._told = summary
            self._tell(summary)
