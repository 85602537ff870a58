"""The method ``metrics``: the figures of the daemon and the cluster for Prometheus."""

from collections.abc import Sequence
from typing import Annotated

import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.model.errors import HtoolsError
from htoolsd.api.status import StatusMethods
from htoolsd.metrics import exporter
from htoolsd.metrics.declarations import METRICS
from htoolsd.metrics.durations import Durations
from htoolsd.metrics.exporter import EXPORTER_METRICS, JobTimes, query_jobs
from htoolsd.metrics.metric import CONTENT_TYPE, render
from htoolsd.socket.methods import method
from htoolsd.socket.roles import Role
from htoolsd.sync.sync import Sync

_log = structlog.get_logger()

_JOBS_SECONDS = 5.0  # for luxid's answer about the job queue
_JOBS_EVERY = 30.0  # seconds; luxid reads a file for each job


class MetricsMethods:
    """The method ``metrics``."""

    def __init__(self, status: StatusMethods, sync: Sync) -> None:
        self._status = status
        self._sync = sync
        self._jobs: Sequence[JobTimes] = ()
        self._jobs_due = 0.0
        self._scrapes = Durations()

    @method(
        "Returns the figures of the daemon and the cluster in the text format of Prometheus (text), and the"
        " format's name (content_type).",
        role=Role.READ,
    )
    async def metrics(
        self, exporter_names: Annotated[bool, "true to add the metrics of prometheus-ganeti-exporter"] = False
    ) -> object:
        return {"content_type": CONTENT_TYPE, "text": await self.text(exporter_names)}

    async def text(self, exporter_names: bool = False) -> str:
        """Return the metrics in the text format."""
        began = trio.current_time()
        status = await self._status.report(count=True)
        if exporter_names and status["cluster"]["master"]:
            await self._query_jobs()
        model, jobs, scrapes = self._sync.model, self._jobs, self._scrapes

        def work() -> str:
            text = render(METRICS, status)
            if exporter_names:
                text += render(EXPORTER_METRICS, exporter.document(model, jobs, status, scrapes))
            return text

        text = await machine.run_sync(work)
        if exporter_names:
            self._scrapes.add(trio.current_time() - began)
        return text

    async def _query_jobs(self) -> None:
        """Query the job queue if that is due. Without an answer the last known jobs stay."""
        now = trio.current_time()
        if now < self._jobs_due:
            return
        self._jobs_due = now + _JOBS_EVERY
        try:
            with trio.move_on_after(_JOBS_SECONDS):
                async with self._sync.client() as client:
                    self._jobs = await query_jobs(client)
        except HtoolsError as error:
            _log.info("job queue not read", error=str(error))
