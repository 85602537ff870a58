"""The method ``metrics``: the figures of the daemon and the cluster for Prometheus."""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from htoolsd.metrics.declarations import METRICS
from htoolsd.metrics.metric import CONTENT_TYPE, render
from htoolsd.socket.methods import Args, File, method
from htoolsd.socket.roles import Role


class MetricsMethods:
    """The method ``metrics``. ``status`` returns the JSON of the method ``status``, with the capacity."""

    def __init__(self, status: Callable[[bool], Awaitable[dict[str, Any]]]) -> None:
        self._status = status

    @method(
        "Returns the figures of the daemon and the cluster in the text format of Prometheus (text), and the"
        " format's name (content_type).",
        role=Role.READ,
    )
    async def metrics(self, _args: Args, _file: File) -> object:
        return {"content_type": CONTENT_TYPE, "text": await self.text()}

    async def text(self) -> str:
        """Return the metrics in the text format."""
        document = await self._status(True)
        return await trio.to_thread.run_sync(render, METRICS, document)
