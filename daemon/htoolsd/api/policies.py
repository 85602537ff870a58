"""The methods about policies."""

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.errors import HtoolsError
from htoolsd.policies.remedies import POLICIES
from htoolsd.policies.schedule import Policies
from htoolsd.socket.methods import Args, File
from htoolsd.sync.sync import Sync


class PolicyMethods:
    """Answers about policies."""

    def __init__(self, policies: Policies, sync: Sync) -> None:
        self._policies = policies
        self._sync = sync

    # The last two raise RefusalError.

    async def summaries(self, _args: Args, _file: File) -> object:
        return self._policies.status()

    async def explain(self, args: Args, _file: File) -> object:
        try:
            return await self._policies.explain(_name("explain", args))
        except HtoolsError as error:
            raise RefusalError(Refusal.CLUSTER, str(error)) from None

    async def run(self, args: Args, _file: File) -> object:
        name, forget = _name("run", args), args.get("forget_failures", False)
        if not isinstance(forget, bool):
            raise RefusalError(Refusal.ARGUMENTS, "run: forget_failures: expected true or false")
        if self._sync.master:
            if forget:
                self._policies.forget_failures(name)
            self._policies.request(name, "asked")
        (told,) = (each for each in self._policies.status() if each["name"] == name)
        return {"master": self._sync.master, "mode": told["mode"]}


def _name(method: str, args: Args) -> str:
    name = args.get("policy")
    if not isinstance(name, str) or name not in POLICIES:
        raise RefusalError(Refusal.ARGUMENTS, f"{method}: policy: expected {' or '.join(POLICIES)}")
    return name
