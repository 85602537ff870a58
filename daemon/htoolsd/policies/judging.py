"""What would be done in node groups now, and what holds it back. Nothing is done, nothing remembered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import trio

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning.proposal import Proposal
from htoolsd.plans.plans import Plans
from htoolsd.policies.bounds import Bounds, restored
from htoolsd.policies.conditions import Situation, counted, holding
from htoolsd.policies.kept import Kept
from htoolsd.policies.looking import situations
from htoolsd.policies.order import ORDER, POLICIES
from htoolsd.policies.policy import Planned, Remedy
from htoolsd.policies.safety import in_order
from htoolsd.policies.settings import Reserve, Settings, Squeeze
from htoolsd.sync.following import Sync


class Judging:
    """Judges what policies would do by their ``settings``, which may change, and by what is ``kept``."""

    def __init__(
        self,
        kept: Kept,
        sync: Sync,
        plans: Plans,
        settings: Mapping[str, Settings],
        clock: Callable[[], float],
    ) -> None:
        self._kept = kept
        self._sync = sync
        self._plans = plans
        self._settings = settings
        self._clock = clock
        self._turn = trio.CapacityLimiter(1)

    async def situations(self, remedy: Remedy) -> tuple[Cluster, list[Situation]]:
        """The cluster, and how it is with each node group. Raises HtoolsError."""
        settings = self._settings[remedy.policy]
        cluster, seen = await situations(
            remedy, settings, self._kept.known, self._sync, self._plans, self._clock
        )
        quiet = [each.group for each in seen if each.calm and not each.need.begin]
        return cluster, [self._bounded(each, quiet) for each in seen]

    def _bounded(self, seen: Situation, quiet: Sequence[str]) -> Situation:
        others = tuple(group for group in quiet if group != seen.group)
        reserve = self._reserve(seen.group)
        return replace(seen, bounds=seen.bounds._replace(quiet=others, reserve=reserve))

    def _reserve(self, group: str) -> Reserve:
        """What nodes keep free, whatever policy moves instances."""
        squeeze = self._settings["squeeze"]
        assert isinstance(squeeze, Squeeze)
        on = squeeze.mode != "off" and (not squeeze.groups or group in squeeze.groups)
        return squeeze.reserve if on else Reserve(0.0)

    def held(self, remedy: Remedy, seen: Situation) -> list[tuple[str, str]]:
        """The conditions that hold a remedy back in a group, each with the reason."""
        memory = self._kept.known.memories[remedy.policy]
        return list(holding(self._settings[remedy.policy], memory, seen))

    async def held_now(self, remedy: Remedy, group: str) -> str | None:
        """Why a remedy is held back in a group by now, if it is; what others do aside. Raises HtoolsError."""
        _, found = await self.situations(remedy)
        for seen in found:
            if seen.group == group:
                return next((why for _, why in self.held(remedy, seen)), None)
        return "there is nothing left to do"

    async def planned(self, remedy: Remedy, cluster: Cluster, bounds: Bounds) -> Planned:
        """What would be done in a group. Raises HtoolsError."""
        found = await trio.to_thread.run_sync(
            remedy.planned,
            cluster,
            self._settings[remedy.policy],
            bounds,
            lambda _text: trio.from_thread.check_cancelled(),
            abandon_on_cancel=True,
            limiter=self._turn,
        )
        return replace(found, proposal=in_order(found.proposal))

    async def again(self, facts: Mapping[str, Any]) -> Proposal:
        """The plan of an earlier daemon's policy as it would be made of the cluster as it is now, in the same
        bounds. Raises HtoolsError where there would be none.
        """
        remedy = next((each for each in ORDER if each.title == facts["remedy"]), None)
        bounds, cluster = restored(facts.get("bounds")), self._sync.model.cluster
        if remedy is None or bounds is None or cluster is None:
            raise HtoolsError("it cannot be made again")
        if all(row.name != bounds.group for row in cluster.groups):
            raise HtoolsError(f"node group {bounds.group} is gone")
        found = await self.planned(remedy, cluster, bounds)
        if found.refusal is not None:
            raise HtoolsError(found.refusal)
        return found.proposal

    async def others(self, remedy: Remedy, seen: Situation) -> str | None:
        """What has been done in a group within the time that it takes to begin, or would be done there, of
        what comes first; of interest only to what yields to that. Raises HtoolsError.
        """
        settings = self._settings[remedy.policy]
        since = seen.now - settings.hold * settings.every_seconds
        for other in ORDER[: ORDER.index(remedy)] if remedy.yields else ():
            if self._settings[other.policy].mode == "off":
                continue
            rounds = self._kept.known.memories[other.policy].of(other.title, seen.group)
            if rounds.acted > since:
                return f"{other.title} had its turn {seen.now - rounds.acted:.0f} s ago"
            if rounds.working and await self._acts(other, seen.group):
                return f"{other.title} would act there"
        return None

    async def _acts(self, remedy: Remedy, group: str) -> bool:
        """Whether something would be done in a group at once. Raises HtoolsError."""
        cluster, found = await self.situations(remedy)
        for seen in found:
            if seen.group == group and not self.held(remedy, seen):
                return (await self.planned(remedy, cluster, seen.bounds)).refusal is None
        return False

    async def explained(self, name: str) -> list[dict[str, Any]]:
        """What a policy would do in each group, and all that holds it back, as JSON. Raises HtoolsError."""
        told = []
        for remedy in POLICIES[name]:
            cluster, found = await self.situations(remedy)
            for each in found:
                others = await self.others(remedy, each)
                seen = replace(counted(self._settings[name], each), others=others)
                planned, held = None, self.held(remedy, seen)
                try:
                    planned = await self.planned(remedy, cluster, seen.bounds)
                except HtoolsError as error:
                    held.append(("error", str(error)))
                if planned is not None and planned.refusal is not None:
                    held.append(("gain", planned.refusal))
                told.append(
                    {
                        "group": seen.group,
                        "remedy": remedy.title,
                        "score": {"before": seen.score, "after": planned and planned.after},
                        "n1": seen.bounds.n1,
                        "held": [{"condition": what, "reason": reason} for what, reason in held],
                        "moves": planned.told() if planned else [],
                        "mib": planned.mib if planned else 0,
                        "powered": list(planned.nodes) if planned else [],
                    }
                )
        return told
