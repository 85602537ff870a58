"""The methods about plans, of a daemon without policies and without a socket."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning.plan import Proposal
from htoolsd.api.plans import PlanMethods
from htoolsd.plans.plans import Plans
from htoolsd.socket.peer import caller
from htoolsd.socket.roles import Role
from htoolsd.sync.sync import Sync
from tests.support.memory_peer import open_access
from tests.support.settings import settings


class Others:
    """The policies and the server; users below 10 may act."""

    async def remake_proposal(self, _facts: Mapping[str, Any]) -> Proposal:
        raise HtoolsError("there are no policies")

    def caller_may(self, role: Role) -> bool:
        return open_access().roles.of(caller.get()) >= role

    def waiting(self) -> AbstractContextManager[bool]:
        return nullcontext(True)


def plan_methods(plans: Plans, sync: Sync) -> PlanMethods:
    """The methods for the present caller."""
    others: Any = Others()
    return PlanMethods(plans, sync, settings(), others, others)
