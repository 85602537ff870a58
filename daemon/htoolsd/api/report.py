"""The method ``report``: the state of the cluster as a page."""

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.errors import HtoolsError
from htoolsd.report.report import ReportPage
from htoolsd.socket.methods import method
from htoolsd.socket.roles import Role


class ReportMethods:
    """The method ``report``. It raises RefusalError."""

    def __init__(self, page: ReportPage) -> None:
        self._page = page

    @method(
        "Returns the state of the cluster, and the history of the last days, as an HTML page without scripts"
        " (html). It may be half a minute old.",
        role=Role.READ,
    )
    async def report(self) -> object:
        try:
            return {"html": await self._page.html()}
        except HtoolsError as error:
            raise RefusalError(Refusal.CLUSTER, f"report: {error}") from None
