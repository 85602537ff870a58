"""The notifier: a task that looks for events and has them delivered, apart from all other work.

Conditions need no queue: they are compared with what was announced, whenever a call is due, and remembered
on disk once they are announced. A new daemon announces none of them again. Events of the history wait, as
many as fit; they are on disk after a call that failed, and when the daemon ends.

A call that failed is made again with all that has come meanwhile. So an event may arrive twice, for example
after a program that failed at its end.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any, NamedTuple, Protocol

import orjson
import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.files import read_regular_file, write_text
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.nursery import open_nursery
from ganeti_htools.records import from_bytes, to_text
from htoolsd.config.notify import NotifySettings
from htoolsd.config.settings import Settings
from htoolsd.damaged_files import set_aside
from htoolsd.notify.deliver import Delivery, deliver
from htoolsd.notify.events import Announced, Change, Event, EventState, Key, Line, changes
from htoolsd.notify.outbox import Outbox
from htoolsd.sync.sync import Sync
from htoolsd.tasks import note_defect
from htoolsd.threads import Replacements, effect

_log = structlog.get_logger()

VERSION = 1  # of messages
CALL_EVENTS = 100  # events of a call
_LOOK_SECONDS = 5.0
_LAST_SECONDS = 2.0  # for the last write
_LONGEST_PAUSE = 3600.0  # seconds between two calls that fail
_FILE_BYTES = 16 << 20  # bytes of the file


class StatusReporter(Protocol):
    """The daemon's reports about itself."""

    async def report(self) -> Mapping[str, Any]:
        """Return the JSON of the method ``status``."""


class Notifier:
    """Notifications by these settings. ``path`` is the file of the conditions that were announced."""

    def __init__(
        self, path: str, settings: Settings, outbox: Outbox, status: StatusReporter, sync: Sync
    ) -> None:
        self._path = path
        self._outbox = outbox
        self._status = status
        self._sync = sync
        self._announced: dict[Key, Announced] = {}
        self._failed = 0
        self._noticed: float | None = None  # when the first event of the next call was noticed
        self._not_before = 0.0
        self._calling = trio.Lock()
        self._replacements = Replacements()
        self._configuration = settings

    @property
    def settings(self) -> NotifySettings:
        """The present settings."""
        return self._configuration.now.notify

    async def _follow_settings(self) -> None:
        """Begin anew after each change."""
        while True:
            changed = self._configuration.changed
            self._failed, self._not_before, self._outbox.error = 0, 0.0, self.settings.problem()
            if self._outbox.error is not None:
                _log.warning("notification program cannot be run", error=self._outbox.error)
            self._outbox.news.set()
            await changed.wait()
            if self.settings.way is None:
                self._outbox.waiting.clear()

    async def run(self) -> None:
        """Look for events and have them delivered, until cancelled."""
        async with open_nursery() as nursery:
            nursery.start_soon(self._follow_settings)
            await self._load()
            try:
                await self._look_for_events()
            finally:
                if self._outbox.waiting:
                    with trio.move_on_after(_LAST_SECONDS, shield=True):
                        await self._save()

    async def _look_for_events(self) -> None:
        while True:
            with trio.move_on_after(inf if self.settings.way is None else _LOOK_SECONDS):
                with trio.move_on_at(self._due()):
                    await self._outbox.news.wait()
            self._outbox.news = trio.Event()
            if self.settings.way is None:
                continue
            try:
                await self.round()
            except Exception as defect:  # what waits is not lost
                note_defect("notifications", defect)
                await trio.sleep(_LOOK_SECONDS)

    async def test(self) -> Delivery:
        """Deliver a test event at once, the real way."""
        event = Event(machine.now(), "test", EventState.HAPPENED, "info", "this is a test", "", ())
        delivery = await self._call([event])
        if delivery.error is None:
            self._failed, self._not_before = 0, 0.0
            self._outbox.news.set()
        return delivery

    async def round(self) -> None:
        """Look once, and make a call if one is due."""
        settings = self.settings
        lines, complete = await self._look()
        due = changes(self._announced, lines, machine.now(), settings.repeat_seconds, complete)
        no_news = [change for change in due if change.event is None]
        due = [change for change in due if change.event is not None]
        if no_news:
            await self._remember(no_news)
        if not due and not self._outbox.waiting:
            self._noticed = None
            return
        if self._noticed is None:
            self._noticed = trio.current_time()
        if trio.current_time() < self._due():
            return
        waiting = list(self._outbox.waiting)[:CALL_EVENTS]
        announced = due[: CALL_EVENTS - len(waiting)]
        events = [*waiting, *(change.event for change in announced if change.event is not None)]
        delivery = await self._call(sorted(events, key=lambda event: event.time))
        now = trio.current_time()
        if delivery.error is not None:
            pause = settings.retry_seconds * 2.0 ** min(self._failed, 20)
            self._not_before = now + min(pause, max(_LONGEST_PAUSE, settings.retry_seconds))
            self._failed += 1
            if waiting:
                await self._save()
            return
        self._failed, self._noticed, self._not_before = 0, None, now + settings.every_seconds
        for event in waiting:
            if self._outbox.waiting and self._outbox.waiting[0] is event:  # others were dropped meanwhile
                self._outbox.waiting.popleft()
        await self._remember(announced)

    async def _look(self) -> tuple[Sequence[Line], bool]:
        """Return the lines under ATTENTION, and whether all that the cluster can need is among them."""
        report = await self._status.report()
        cluster = report["cluster"]
        complete = cluster["master"] and cluster["nodes"] is not None and report["groups"] is not None
        return report["attention"], bool(complete)

    def _due(self) -> float:
        """Return when the next call is due, on trio's clock."""
        if self._noticed is None:
            return inf
        return max(self._noticed + self.settings.pause_seconds, self._not_before)

    async def _call(self, events: Sequence[Event]) -> Delivery:
        """Deliver events, and note the outcome."""
        dropped = self._outbox.dropped
        document = {
            "version": VERSION,
            "time": machine.now(),
            "cluster": self._sync.cluster_name,
            "node": os.uname().nodename,
            "dropped": dropped,
            "events": [event._asdict() for event in events],
        }
        async with self._calling:
            delivery = await deliver(self.settings, orjson.dumps(document))
        if delivery.error is None:
            if self._outbox.error is not None:
                _log.info("notifications are delivered again")
            self._outbox.delivered, self._outbox.dropped = machine.now(), self._outbox.dropped - dropped
        elif self._outbox.error is None:
            _log.warning("notification not delivered", error=delivery.error)
        self._outbox.error = delivery.error
        return delivery

    # The file

    async def _remember(self, announced: Sequence[Change]) -> None:
        """Remember what was announced, also on disk."""
        for change in announced:
            for key, each in change.remembered.items():
                if each is None:
                    self._announced.pop(key, None)
                else:
                    self._announced[key] = each
        await self._save()

    async def _save(self) -> None:
        """Write the file. Failures are logged."""
        content = to_text(_Stored(1, list(self._announced.values()), list(self._outbox.waiting)))
        try:
            await self._replacements.do(write_text, self._path, content)
        except HtoolsError as error:
            _log.warning("announced conditions cannot be written", error=str(error))

    async def _load(self) -> None:
        """Read what earlier daemons announced. Failures are logged."""
        try:
            content = await effect(read_regular_file, self._path, _FILE_BYTES)
            stored: _Stored = from_bytes(_Stored, content)
            self._announced = {(each.kind, each.name): each for each in stored.announced}
            self._outbox.waiting.extendleft(reversed(stored.waiting))
        except FileNotFoundError:
            return
        except (OSError, DataError) as error:
            _log.warning("announced conditions cannot be read; they are announced again", error=str(error))
            if isinstance(error, DataError):
                with suppress(OSError):
                    await effect(set_aside, self._path)


class _Stored(NamedTuple):
    """The content of the file."""

    version: int
    announced: list[Announced]
    waiting: list[Event]
