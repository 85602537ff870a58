"""The method ``report``: the state of the cluster as a page.

The helper draws it when somebody asks, and it is kept for a while.
"""

from operator import itemgetter

import trio

from ganeti_htools import machine
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.wording import describe_forecast
from ganeti_htools.pages.nodes import DRAWN
from ganeti_htools.planning.view import with_measured_load
from htoolsd.api.status import StatusMethods
from htoolsd.helper.helper import run_helper
from htoolsd.history.entries import HistoryQuery
from htoolsd.history.history import History
from htoolsd.load.report import hottest_hours
from htoolsd.socket.methods import method
from htoolsd.socket.roles import Role
from htoolsd.sync.sync import Sync

DAYS = 7  # of the history
_ENTRIES = 1000  # entries
_KEPT_SECONDS = 30.0  # seconds that a page or a failure is kept, so that reloads cost nothing
_CPU_SECONDS = 20.0  # seconds of CPU time for a page
_DRAW_SECONDS = 25.0  # seconds for a page; less than HTTP clients wait


class ReportMethods:
    """The method ``report``, and the last page. The method raises RefusalError."""

    def __init__(self, status: StatusMethods, history: History, sync: Sync) -> None:
        self._status = status
        self._history = history
        self._sync = sync
        self._drawn = -_KEPT_SECONDS
        self._page, self._error = "", ""
        self._turn = trio.Lock()

    @method(
        "Returns the state of the cluster, and the history of the last days, as an HTML page without scripts"
        " (html). It may be half a minute old.",
        role=Role.READ,
    )
    async def report(self) -> object:
        try:
            return {"html": await self.html()}
        except HtoolsError as error:
            raise RefusalError(Refusal.CLUSTER, f"report: {error}") from None

    async def html(self) -> str:
        """Return the page; callers at the same time get the same. Raises HtoolsError."""
        async with self._turn:
            if trio.current_time() >= self._drawn + _KEPT_SECONDS:
                self._page, self._error = await self._draw()
                self._drawn = trio.current_time()
        if self._error:
            raise HtoolsError(f"the report was not drawn: {self._error}")
        return self._page

    async def _draw(self) -> tuple[str, str]:
        """Return the page, or why there is none."""
        cluster = self._sync.model.available
        if cluster is None:
            return "", "the cluster is not known yet"
        with trio.move_on_after(_DRAW_SECONDS):
            status = await self._status.report()
            jobs = status["cluster"]["unfinished_jobs"]
            under_way = {
                "Plans": ", ".join(f"{number} {state}" for state, number in status["plans"].items())
                or "none",
                "Unfinished jobs": "unknown" if jobs is None else str(jobs),
            }
            dated = [each for each in status["forecast"] if each["earliest"] is not None]
            if dated:
                first = min(dated, key=itemgetter("earliest"))
                what = f"{first['resource']} of {first['group']}"
                under_way["First to be full"] = f"{what}: {describe_forecast(first)}"
            query = HistoryQuery(since=machine.now() - DAYS * 86400, most=_ENTRIES)
            about = self._sync.cluster_name or "", status["attention"], under_way
            facts = *about, await self._history.find(query), DAYS
            hours = await machine.run_sync(hottest_hours, cluster, DRAWN)
            shown = with_measured_load(cluster, "none"), *facts, hours
            page, limit, error = await run_helper("htoolsd.helper.page", _CPU_SECONDS, _DRAW_SECONDS, *shown)
            return page.decode(), f"it takes longer than {limit}" if limit else error or ""
        return "", f"it takes longer than {_DRAW_SECONDS:g} s"
