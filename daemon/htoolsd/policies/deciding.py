"""A policy decides: each decision goes into the history with its reason, and may become a plan."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import structlog

from ganeti_htools.client.protocol import RefusalError
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning import hsqueeze
from htoolsd.plans.making import made
from htoolsd.plans.plan import Plan
from htoolsd.plans.plans import Plans
from htoolsd.policies.conditions import Situation, counted, over
from htoolsd.policies.decision import BEGUN, FAILED, HELD, PROPOSED, WOULD, Decision
from htoolsd.policies.judging import Judging
from htoolsd.policies.kept import Kept
from htoolsd.policies.memory import Rests, Spent, without
from htoolsd.policies.order import ORDER, POLICIES
from htoolsd.policies.policy import Planned, Remedy
from htoolsd.policies.settings import Settings
from htoolsd.sync.following import Sync

_log = structlog.get_logger()


class Deciding:
    """Decides by what ``judging`` tells. ``note`` is told of each decision."""

    def __init__(
        self,
        judging: Judging,
        kept: Kept,
        sync: Sync,
        plans: Plans,
        settings: Mapping[str, Settings],
        note: Callable[[Decision], None],
        clock: Callable[[], float],
    ) -> None:
        self._judging = judging
        self._kept = kept
        self._sync = sync
        self._plans = plans
        self._settings = settings
        self._note = note
        self._clock = clock
        self._begun: dict[str, tuple[float, Rests]] = {}  # when plans began, and what rested before
        self._last: dict[str, dict[str, Decision]] = {remedy.title: {} for remedy in ORDER}

    def last(self, name: str) -> list[Decision]:
        """The last decision of a policy about each node group, and for each thing that it does."""
        return [decision for each in POLICIES[name] for decision in self._last[each.title].values()]

    async def consider(self, remedy: Remedy, trigger: str, taken: dict[str, str]) -> None:
        """Decide about each node group, and do what was decided. ``taken`` are groups in which something is
        done, or would be, in this round, and what; more are added.
        """
        try:
            await self._consider(remedy, trigger, taken)
        except Exception as error:  # a defect, and no reason to end the daemon
            _log.exception("policy failed", policy=remedy.policy)
            self._decided(remedy, trigger, None, FAILED, f"{type(error).__name__}: {error}")

    async def _consider(self, remedy: Remedy, trigger: str, taken: dict[str, str]) -> None:
        settings, known = self._settings[remedy.policy], self._kept.known
        known.not_after(self._clock(), self._settings)
        try:
            if self._kept.unreadable is not None:
                raise HtoolsError(self._kept.unreadable)
            cluster, found = await self._judging.situations(remedy)
        except HtoolsError as error:
            self._decided(remedy, trigger, None, HELD, str(error))
            return
        seen = [counted(settings, each) for each in found]
        known.memories[remedy.policy].rounds[remedy.title] = {each.group: each.rounds for each in seen}
        self._kept.unsaved = True
        last = self._last[remedy.title]
        self._last[remedy.title] = {each.group: last[each.group] for each in seen if each.group in last}
        for each in seen:
            first = taken.get(each.group)
            quiet = tuple(group for group in each.bounds.quiet if group not in taken)
            bounds = each.bounds._replace(quiet=quiet)
            each = replace(each, bounds=bounds, others=f"{first} comes first" if first else None)
            try:
                held = next((why for _, why in self._judging.held(remedy, each)), None)
                held = held or await self._judging.others(remedy, each)
                if held is not None:
                    self._decided(remedy, trigger, each, HELD, held)
                    continue
                groups = await self._act(remedy, trigger, cluster, each)
                taken |= dict.fromkeys(groups, remedy.title)
            except HtoolsError as error:
                self._decided(remedy, trigger, each, FAILED, str(error))

    async def _act(self, remedy: Remedy, trigger: str, cluster: Cluster, seen: Situation) -> tuple[str, ...]:
        """Do in a group what the mode says; the groups in which something is done, or would be.

        Raises HtoolsError.
        """
        generations = self._sync.model.generations
        planned = await self._judging.planned(remedy, cluster, seen.bounds)
        # That may have taken long.
        held = planned.refusal or await self._judging.held_now(remedy, seen.group)
        if held is not None:
            self._decided(remedy, trigger, seen, HELD, held)
            return ()
        groups, mode = planned.proposal.groups, self._settings[remedy.policy].mode
        if mode == "shadow":
            self._acted(remedy, groups)
            self._decided(remedy, trigger, seen, WOULD, planned.summary, planned)
            return groups
        by = {"uid": os.getuid(), "pid": os.getpid()}
        of = {"policy": remedy.policy, "remedy": remedy.title, "bounds": seen.bounds.document()}
        plan = made(remedy.tool, planned.options, planned.proposal, generations, by, **of)
        if mode == "propose":
            await self._plans.add(plan)
            self._acted(remedy, groups)
            self._decided(remedy, trigger, seen, PROPOSED, planned.summary, planned, plan)
        else:
            await self._begin(remedy, plan, planned)
            self._decided(remedy, trigger, seen, BEGUN, planned.summary, planned, plan)
        return groups

    def _acted(self, remedy: Remedy, groups: tuple[str, ...]) -> None:
        memory = self._kept.known.memories[remedy.policy]
        for group in groups:
            memory.note(remedy.title, group, memory.of(remedy.title, group)._replace(acted=self._clock()))
        self._kept.unsaved = True

    async def _begin(self, remedy: Remedy, plan: Plan, planned: Planned) -> None:
        """Begin a plan once it is on disk what it takes. Raises HtoolsError."""
        known, now = self._kept.known, self._clock()
        memory, before = known.memories[remedy.policy], Rests(known.moved, known.switched)
        spent = Spent(now, planned.moves, planned.mib)
        memory.spend(spent)
        known.moved = before.moved | dict.fromkeys((move["instance"] for move in planned.told()), now)
        known.switched = before.switched | dict.fromkeys(planned.nodes, now)
        self._acted(remedy, planned.proposal.groups)
        plan.over = lambda: over(self._settings[remedy.policy], datetime.fromtimestamp(self._clock()))
        self._begun[plan.id] = now, before
        try:
            await self._kept.save()
            await self._plans.add(plan)
            await self._plans.begin(plan, "stop", False)
        except (HtoolsError, RefusalError) as error:
            memory.spent.remove(spent)
            known.moved, known.switched = before
            del self._begun[plan.id]
            self._kept.unsaved = True
            raise HtoolsError(f"not begun: {error}") from None

    def ended(self, plan: Plan) -> None:
        """What a plan that has ended has not come to need not rest because of it."""
        if plan.id not in self._begun:
            return
        (began, before), rest, known = self._begun.pop(plan.id), plan.run.rest, self._kept.known
        left = [job.step.instance for jobs in rest for job in jobs if job.step is not None]
        known.moved = without(known.moved, left, began, before.moved)
        known.switched = without(known.switched, hsqueeze.marked(rest), began, before.switched)

    def _decided(
        self,
        remedy: Remedy,
        trigger: str,
        seen: Situation | None,
        outcome: str,
        reason: str,
        planned: Planned | None = None,
        plan: Plan | None = None,
    ) -> None:
        now, group = self._clock(), seen.group if seen else ""
        last = self._last[remedy.title].get(group)
        decision = Decision(
            now,
            remedy.policy,
            remedy.title,
            self._settings[remedy.policy].mode,
            trigger,
            group,
            outcome,
            reason,
            {"before": seen.score if seen else None, "after": planned.after if planned else None},
            plan.id if plan else None,
            tuple(planned.told()) if planned else (),
            planned.nodes if planned else (),
            self._since(last) if last and last.outcome == WOULD else None,
        )
        self._last[remedy.title][group] = decision
        told = {"policy": remedy.policy, "group": group, "outcome": outcome, "reason": reason}
        _log.info("policy decided", **told, trigger=trigger)
        self._note(decision)

    def _since(self, last: Decision) -> dict[str, Any]:
        """What came of the cluster after moves that were only computed."""
        here = {name for name, when in self._kept.known.moved.items() if when >= last.time}
        return {"time": last.time, "expected": last.score["after"], "moved": sorted(here)}
