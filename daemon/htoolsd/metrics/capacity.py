"""Expensive figures of the node groups: computed by the helper, and only when asked for."""

import json
from typing import Any

import structlog
import trio

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import on_one_line
from ganeti_htools.planning.view import with_measured_load
from htoolsd.helper.helper import run_helper
from htoolsd.sync.sync import Sync

_log = structlog.get_logger()

CPU_SECONDS = 60.0  # seconds of CPU time for a count; groups that it has not reached keep their last figures
_COUNT_SECONDS = 300.0  # seconds for a count, after which the process is killed
_PAUSE = 10  # times the duration of a count until the next one, so about a tenth of a core at most
_PATIENCE = 1.0  # seconds that the first caller waits for the first figures


class CapacityCount:
    """The last count of the cluster that this node leads.

    A cluster is counted until all its figures are known. There is one process at a time, and none if nobody
    asks.
    """

    def __init__(self, sync: Sync) -> None:
        self._sync = sync
        self._counted: Cluster | None = None
        self._time = 0.0  # of trio's clock, at which the counted cluster was taken
        self._complete = False
        self._error: str | None = None
        self._groups: dict[str, dict[str, float]] = {}
        self._wanted, self._ended = trio.Event(), trio.Event()

    async def request(self) -> None:
        """Have the present cluster counted soon. Only the first count is waited for, a moment."""
        self._wanted.set()
        if self._counted is None and self._sync.led_cluster is not None:
            with trio.move_on_after(_PATIENCE):
                await self._ended.wait()

    def status(self) -> dict[str, Any]:
        """Return the figures of each group, and their age in seconds; ``complete``: all have this age.

        The age is 0 while they are those of the present cluster, None before the first count. Figures are
        None as long as they are unknown.
        """
        age = None if self._counted is None else round(trio.current_time() - self._time, 3)
        if age is not None and self._sync.led_cluster is self._counted:
            age = 0.0
        unknown = dict.fromkeys(("free_instances", "balanced_score"))
        groups = [{"name": name, **unknown, **found} for name, found in self._groups.items()]
        return {"age_s": age, "complete": self._complete, "error": self._error, "groups": groups}

    async def run(self) -> None:
        """Count when requested, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            cluster, began = self._sync.led_cluster, trio.current_time()
            if cluster is None or (cluster is self._counted and self._complete):
                continue
            await self._count(cluster)
            self._counted, self._time = cluster, began
            self._ended.set()
            await trio.sleep(_PAUSE * min(trio.current_time() - began, CPU_SECONDS))

    async def _count(self, cluster: Cluster) -> None:
        self._complete = False
        try:
            output, limit, error = await run_helper(
                "htoolsd.metrics.count", CPU_SECONDS, _COUNT_SECONDS, with_measured_load(cluster, "none")
            )
            self._complete = limit is None and error is None
            self._take(output)
            if limit is not None:
                error = f"given up after {limit}; some groups keep older figures, or have none"
        except Exception as failure:  # a defect must not end the daemon
            error = f"{type(failure).__name__}: {on_one_line(str(failure))}"
        if error is not None and error != self._error:
            _log.warning("capacity not counted", error=error)
        self._error = error

    def _take(self, output: bytes) -> None:
        present = dict[str, dict[str, float]]()
        for line in output.decode().splitlines():
            name, figure, value = json.loads(line)
            present.setdefault(name, {})[figure] = value
        before = {} if self._complete else self._groups
        self._groups = before | {name: before.get(name, {}) | found for name, found in present.items()}
