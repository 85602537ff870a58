"""Access: the roles in force, checked for each call. The name service is asked by a task of its own."""

import os
from math import inf

import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.config.settings import Settings
from htoolsd.socket.peer import Credentials
from htoolsd.socket.roles import Role, Roles, resolve

_log = structlog.get_logger()

_FIRST = 1.0  # seconds that the start of the daemon waits for the name service
_RETRY = 60.0  # seconds until an unknown name is looked up again: the name service may start later
_LOG_EVERY = 60.0  # seconds; a line per user, because anybody may connect


class Access:
    """The roles of callers. Until names are resolved, only root and the daemon's user have one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._own = os.geteuid()
        self.roles = Roles({0: Role.ACT, self._own: Role.ACT})
        self._unknown: list[str] = []
        self._changed = settings.changed
        self._thread = trio.CapacityLimiter(1)
        self._logged = set[int]()  # users with a line in the log since the time below
        self._since = -inf

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Resolve names after each change until cancelled. Started when that is done, or after a second."""
        with trio.move_on_after(_FIRST) as first:
            await self._resolve()
        task_status.started()
        if first.cancelled_caught:
            await self._resolve()
        while True:
            with trio.move_on_after(_RETRY if self._unknown else inf):
                await self._changed.wait()
            await self._resolve()

    async def _resolve(self) -> None:
        self._changed, settings = self._settings.changed, self._settings.now.roles
        self.roles, unknown = await machine.run_sync(
            resolve, settings, self._own, abandon_on_cancel=True, limiter=self._thread
        )
        if unknown and unknown != self._unknown:
            _log.warning("unknown users or groups in [roles]", errors=unknown)
        self._unknown = unknown

    def check(self, caller: Credentials, role: Role, action: str) -> None:
        """Raises RefusalError unless the caller has the role for the action."""
        if self.roles.of(caller) < role:
            raise self.refusal(caller, role, action)

    def refusal(self, caller: Credentials, role: Role, action: str) -> RefusalError:
        """Return the refusal of an action for want of a role, and log it."""
        user, has = self.roles.describe(caller.uid), self.roles.of(caller)
        but = f", only {has}" if has else ""
        why = f"{user} does not have the role {role}{but}; [roles] {role} of the configuration gives it"
        refusal = RefusalError(Refusal.ROLE, f"{action}: {why}")
        now = trio.current_time()
        if now - self._since >= _LOG_EVERY:
            self._since, self._logged = now, set()
        if caller.uid not in self._logged:
            self._logged.add(caller.uid)
            _log.warning("refused", uid=caller.uid, error=refusal.kind, message=str(refusal))
        return refusal
