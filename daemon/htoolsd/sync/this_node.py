"""This node: its name, and its role by Ganeti's ssconf files."""

from contextlib import suppress

import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.sources.ssconf import Ssconf, this_node

_log = structlog.get_logger()

_PATIENCE = 0.5  # seconds that a look waits for the resolver, which may go on until the next one


class ThisNode:
    """This node as Ganeti knows it: its name, its ssconf files, and its role.

    While the files name another master, the name is looked up again: at boot, the first name may be wrong,
    because there was no resolver yet. Nobody waits long for the resolver.
    """

    def __init__(self, ssconf: Ssconf) -> None:
        self.ssconf = ssconf
        self._role: bool | None = None
        self._complaint = ""
        self._resolver = trio.CapacityLimiter(1)

    async def leads(self) -> bool | None:
        """Return whether this is the master node.

        While the files cannot be read, it is the last known role; None at first.
        """
        try:
            if not self.ssconf.leads() and self._resolver.available_tokens:
                with trio.move_on_after(_PATIENCE):
                    await machine.run_sync(self._look_up_name, abandon_on_cancel=True, limiter=self._resolver)
            self._role, why = self.ssconf.leads(), ""
        except OSError as error:
            why = f"{error.filename}: {error.strerror}"
        if why and why != self._complaint:
            _log.warning("master node cannot be determined", error=why)
        self._complaint = why
        return self._role

    def _look_up_name(self) -> None:
        self.ssconf = this_node(self.ssconf.directory)

    def status(self) -> dict[str, str | None]:
        """Return the names of this node and of the master; None if the files name none."""
        master = None
        with suppress(OSError):
            master = self.ssconf.master()
        return {"node": self.ssconf.name, "master_node": master}
