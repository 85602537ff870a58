"""The daemon, for programs on trio: a call that is cancelled closes its connection, so the daemon ends it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import trio

from ganeti_htools.client import methods
from ganeti_htools.client.calls import Steps
from ganeti_htools.client.methods import DaemonAddress
from ganeti_htools.client.plan_changes import FollowedPlan, PlanChange

P = ParamSpec("P")
Result = TypeVar("Result")


async def _carry_out(steps: Steps[Result]) -> Result:
    try:
        while True:
            seconds, sock, writes = next(steps)
            with trio.move_on_after(seconds):
                if sock is None:
                    await trio.sleep_forever()
                await (trio.lowlevel.wait_writable if writes else trio.lowlevel.wait_readable)(sock)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        steps.close()


def _awaiting(
    method: Callable[Concatenate[DaemonAddress, P], Steps[Result]],
) -> Callable[Concatenate[DaemonAddress, P], Awaitable[Result]]:
    @wraps(method)
    async def wait(daemon: DaemonAddress, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return await _carry_out(method(daemon, *args, **kwargs))

    return wait


class TrioDaemon(DaemonAddress):
    """The daemon at a socket; as :class:`ganeti_htools.client.Daemon`."""

    call = _awaiting(methods.call)
    status = _awaiting(methods.status)
    decide = _awaiting(methods.decide)
    plan = _awaiting(methods.plan)
    maintenance = _awaiting(methods.maintenance)
    execute = _awaiting(methods.execute)
    cancel = _awaiting(methods.cancel)

    def follow(self, plan: str) -> AsyncIterator[PlanChange]:
        """Return the plan now and after each change, until it has ended."""
        return _Changes(FollowedPlan(self.path, plan))


class _Changes:
    """No asynchronous generator, for these have to be closed."""

    def __init__(self, following: FollowedPlan) -> None:
        self._following = following

    def __aiter__(self) -> AsyncIterator[PlanChange]:
        return self

    async def __anext__(self) -> PlanChange:
        change = await _carry_out(self._following.next_change())
        if change is None:
            raise StopAsyncIteration
        return change


async def connect(path: str = "") -> TrioDaemon:
    """Return the daemon at a socket, as :func:`ganeti_htools.client.connect`."""
    daemon = TrioDaemon(path)
    await daemon.status()
    return daemon
