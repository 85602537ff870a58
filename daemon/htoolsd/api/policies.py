"""The methods about policies."""

from typing import Annotated

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.records import choice
from htoolsd.policies.coordinator import Policies
from htoolsd.policies.remedies import POLICIES
from htoolsd.socket.methods import method
from htoolsd.socket.roles import Role
from htoolsd.sync.sync import Sync
from htoolsd.threads import Computations

_Policy = Annotated[str, choice(POLICIES)]


class PolicyMethods:
    """Methods about policies. They raise RefusalError."""

    def __init__(self, policies: Policies, sync: Sync, computations: Computations) -> None:
        self._policies = policies
        self._sync = sync
        self._computations = computations

    @method(
        "Lists the policies: the mode, the last decision about each node group with its reason, the time of"
        " the next round, the rest of the day's budget, and the number of plans that failed in a row.",
        role=Role.READ,
    )
    async def policies(self) -> object:
        return self._policies.status()

    @method(
        "Shows what a policy would do now in each node group, and all conditions that block it.",
        role=Role.READ,
    )
    async def explain(self, policy: _Policy) -> object:
        try:
            return await self._policies.explain(policy, self._computations)
        except HtoolsError as error:
            raise RefusalError(Refusal.CLUSTER, str(error)) from None

    @method(
        "Starts a round of a policy, and does not wait for its end. Returns the policy's mode, and whether"
        " this is the master node; on other nodes nothing is started.",
        role=Role.ACT,
        recorded=True,
    )
    async def run(
        self,
        policy: _Policy,
        forget_failures: Annotated[
            bool, "true to switch the policy on again after plans that failed"
        ] = False,
    ) -> object:
        if self._sync.master:
            if forget_failures:
                self._policies.forget_failures(policy)
            self._policies.end_dismissals(policy)
            self._policies.request(policy, "asked")
        (status,) = (each for each in self._policies.status() if each["name"] == policy)
        return {"master": self._sync.master, "mode": status["mode"]}
