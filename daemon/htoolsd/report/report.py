"""The page about the cluster: drawn by the helper when somebody asks, and kept for a while."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from htoolsd.helper.helper import run_helper
from htoolsd.history.entries import HistoryQuery
from htoolsd.history.history import History

DAYS = 7  # of the history
_MOST = 1000  # entries
_KEPT = 30.0  # seconds that a page or a failure is kept, so that reloads cost nothing
_CPU = 20.0  # seconds of CPU time for a page
_LONGEST = 25.0  # seconds for a page; less than HTTP clients wait


class ReportPage:
    """The last page.

    ``status`` returns the JSON of the method ``status``; ``cluster`` and ``name`` return None if unknown.
    """

    def __init__(
        self,
        status: Callable[[], Awaitable[dict[str, Any]]],
        history: History,
        cluster: Callable[[], Cluster | None],
        name: Callable[[], str | None],
    ) -> None:
        self._status = status
        self._history = history
        self._cluster = cluster
        self._name = name
        self._drawn = -_KEPT
        self._page, self._error = "", ""
        self._turn = trio.Lock()

    async def html(self) -> str:
        """Return the page; callers at the same time get the same. Raises HtoolsError."""
        async with self._turn:
            if trio.current_time() >= self._drawn + _KEPT:
                self._page, self._error = await self._draw()
                self._drawn = trio.current_time()
        if self._error:
            raise HtoolsError(f"the report was not drawn: {self._error}")
        return self._page

    async def _draw(self) -> tuple[str, str]:
        """Return the page, or why there is none."""
        cluster = self._cluster()
        if cluster is None:
            return "", "the cluster is not known yet"
        with trio.move_on_after(_LONGEST):
            attention = (await self._status())["attention"]
            query = HistoryQuery(since=time.time() - DAYS * 86400, most=_MOST)
            facts = self._name() or "", attention, await self._history.find(query), DAYS
            page, limit, error = await run_helper("htoolsd.report.draw", _CPU, _LONGEST, cluster, *facts)
            return page.decode(), f"it takes longer than {limit}" if limit else error or ""
        return "", f"it takes longer than {_LONGEST:g} s"
