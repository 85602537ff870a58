"""The methods about policies."""

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.errors import HtoolsError
from htoolsd.policies.remedies import POLICIES
from htoolsd.policies.schedule import Policies
from htoolsd.socket.methods import Args, File, flag, method
from htoolsd.socket.roles import Role
from htoolsd.sync.sync import Sync
from htoolsd.threads import Computations

_NAMES = " or ".join(POLICIES)


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
    async def policies(self, _args: Args, _file: File) -> object:
        return self._policies.status()

    @method(
        "Shows what a policy would do now in each node group, and all conditions that hold it back.",
        {"policy": _NAMES},
        role=Role.READ,
    )
    async def explain(self, args: Args, _file: File) -> object:
        try:
            return await self._policies.explain(_policy("explain", args), self._computations)
        except HtoolsError as error:
            raise RefusalError(Refusal.CLUSTER, str(error)) from None

    @method(
        "Starts a round of a policy, and does not wait for its end. Returns the policy's mode, and whether"
        " this is the master node; on other nodes nothing is started.",
        {
            "policy": _NAMES,
            "forget_failures": "true to switch the policy on again after plans that failed; optional",
        },
        role=Role.ACT,
        recorded=True,
    )
    async def run(self, args: Args, _file: File) -> object:
        name, forget = _policy("run", args), flag("run", args, "forget_failures")
        if self._sync.master:
            if forget:
                self._policies.forget_failures(name)
            self._policies.request(name, "asked")
        (policy,) = (each for each in self._policies.status() if each["name"] == name)
        return {"master": self._sync.master, "mode": policy["mode"]}


def _policy(method: str, args: Args) -> str:
    name = args.get("policy")
    if not isinstance(name, str) or name not in POLICIES:
        raise RefusalError(Refusal.ARGUMENTS, f"{method}: policy: expected {_NAMES}")
    return name
