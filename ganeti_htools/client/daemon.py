"""The daemon, for programs that wait for its answers."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from ganeti_htools.client import methods
from ganeti_htools.client.calls import Steps, wait_for
from ganeti_htools.client.methods import DaemonAddress
from ganeti_htools.client.plan_changes import FollowedPlan, PlanChange

P = ParamSpec("P")
Result = TypeVar("Result")


def _waiting(
    method: Callable[Concatenate[DaemonAddress, P], Steps[Result]],
) -> Callable[Concatenate[DaemonAddress, P], Result]:
    @wraps(method)
    def wait(daemon: DaemonAddress, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return wait_for(method(daemon, *args, **kwargs))

    return wait


class Daemon(DaemonAddress):
    """The daemon at a socket. Each call is a connection of its own; threads may share this object.

    All methods raise NoReplyError and CallRefusedError.
    """

    call = _waiting(methods.call)
    status = _waiting(methods.status)
    decide = _waiting(methods.decide)
    plan = _waiting(methods.plan)
    maintenance = _waiting(methods.maintenance)
    execute = _waiting(methods.execute)
    cancel = _waiting(methods.cancel)

    def follow(self, plan: str) -> Iterator[PlanChange]:
        """Yield the plan now and after each change, until it has ended."""
        following = FollowedPlan(self.path, plan)
        while change := wait_for(following.next_change()):
            yield change


def connect(path: str = "") -> Daemon:
    """Return the daemon at a socket (default: $HTOOLSD_SOCKET, else the usual one), which answers.

    Raises NoReplyError, CallRefusedError.
    """
    daemon = Daemon(path)
    daemon.status()
    return daemon
