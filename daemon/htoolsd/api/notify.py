"""The method ``notify``."""

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.notify.notifier import Notifier
from htoolsd.socket.methods import method
from htoolsd.socket.roles import Role


class NotifyMethods:
    """The method about notifications. It raises RefusalError."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    @method(
        "Sends a test event to the program or the address of [notify], and returns the outcome.",
        role=Role.ACT,
    )
    async def notify(self) -> object:
        way = self._notifier.settings.way
        if way is None:
            raise RefusalError(Refusal.ARGUMENTS, "notify: [notify] has neither program nor url")
        return {"way": way, **(await self._notifier.test())._asdict()}
