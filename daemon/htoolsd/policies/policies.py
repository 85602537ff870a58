"""Policies at work: when they look at the cluster, what they decide, and what becomes of it.

A timer, somebody who asks, and events of the cluster all end in ``_consider``, one at a time and in one
order. Each decision goes into the history with its reason. What a plan takes of the budgets is on disk before
it begins.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from math import inf
from typing import Any

import structlog
import trio

from ganeti_htools.client.protocol import RefusalError
from ganeti_htools.execution.run import Ending
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from htoolsd.plans.making import made
from htoolsd.plans.plan import Plan
from htoolsd.plans.plans import Plans
from htoolsd.policies.conditions import Situation, counted
from htoolsd.policies.judging import Judging
from htoolsd.policies.kept import Kept
from htoolsd.policies.memory import Spent
from htoolsd.policies.order import ORDER, POLICIES
from htoolsd.policies.policy import BEGUN, FAILED, HELD, PROPOSED, WOULD, Decision, Planned, Remedy
from htoolsd.policies.settings import Settings
from htoolsd.policies.watching import Watch
from htoolsd.sync.following import Sync

_log = structlog.get_logger()

_LAST = 2.0  # seconds for the last write


class Policies:
    """All policies. What they remember is in the file at ``path``; ``note`` is told of each decision."""

    def __init__(
        self,
        path: str,
        sync: Sync,
        plans: Plans,
        settings: Mapping[str, Settings],
        note: Callable[[Decision], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kept = Kept(path, POLICIES)
        self._sync = sync
        self._plans = plans
        self._settings = dict(settings)
        self._note = note
        self._clock = clock
        self._due = dict.fromkeys(POLICIES, inf)
        self._triggers: dict[str, str] = {}
        self._news = trio.Event()
        self._last: dict[str, dict[str, Decision]] = {remedy.title: {} for remedy in ORDER}
        self._judging = Judging(self._kept, sync, plans, self._settings, clock)
        self._watch = Watch(sync, self._kept, self._active, self.want, self._longest, clock)

    def limit(self, settings: Mapping[str, Settings]) -> None:
        """Heed these settings from now on."""
        changed = [name for name in POLICIES if settings[name] != self._settings[name]]
        self._settings.update(settings)
        for name in changed:
            self._schedule(name)
        self._news.set()

    def want(self, name: str, trigger: str) -> None:
        """Have a policy considered at once, unless it is off; ``trigger`` says why."""
        if name in self._active():
            self._triggers.setdefault(name, trigger)
            self._news.set()

    def forget_failures(self, name: str) -> None:
        """Have a policy go on that plans which failed have switched off."""
        self._kept.known.memories[name].forget_failures()
        self._save_soon()

    def ended(self, plan: Plan) -> None:
        """Count a plan of a policy that has ended: whether it failed."""
        name = str(plan.facts.get("policy"))
        if name not in POLICIES or plan.ended is None:
            return
        memory = self._kept.known.memories[name]
        if plan.run.ending is Ending.DONE:
            memory.forget_failures()
        elif plan.run.ending in (Ending.FAILED, Ending.LOST):
            memory.fail(self._settings[name], self._clock(), plan.error or "for no known reason")
            self._tell_if_off(name)
        self._save_soon()

    def _tell_if_off(self, name: str) -> None:
        memory = self._kept.known.memories[name]
        if memory.off(self._settings[name]):
            _log.error("policy switched off", policy=name, failed=memory.failed, error=memory.error)

    def status(self) -> list[dict[str, Any]]:
        """Each policy: its mode, what it decided last, when it is considered next, what its budgets leave."""
        return [self._told(name) for name in POLICIES]

    def health(self) -> list[dict[str, Any]]:
        """Each policy in short: its mode, how it is, and what it decided last, if anything."""
        told, now = [], self._clock()
        for name, remedies in POLICIES.items():
            memory, settings = self._kept.known.memories[name], self._settings[name]
            last = [decision for each in remedies for decision in self._last[each.title].values()]
            newest = max(last, key=lambda each: each.time, default=None)
            what = ("time", "remedy", "group", "outcome", "reason")
            told.append(
                {
                    "name": name,
                    "mode": settings.mode,
                    "health": memory.health(settings, now),
                    "error": memory.error or None,
                    "last": newest and {key: getattr(newest, key) for key in what},
                }
            )
        return told

    def _told(self, name: str) -> dict[str, Any]:
        settings, memory, now = self._settings[name], self._kept.known.memories[name], self._clock()
        wait = self._due[name] - trio.current_time()
        last = [decision for each in POLICIES[name] for decision in self._last[each.title].values()]
        return {
            "name": name,
            "tool": POLICIES[name][0].tool,
            "mode": settings.mode,
            "last": [asdict(decision) for decision in last],
            "next": now + wait if wait < inf else None,
            "left": memory.left(settings, now)._asdict(),
            "failed": memory.failed,
            "error": memory.error or None,
            "off": memory.off(settings),
        }

    async def explain(self, name: str) -> dict[str, Any]:
        """What a policy would do now in each group, and which conditions hold it back. Raises HtoolsError."""
        groups = await self._judging.explained(name)
        return {**self._told(name), "groups": groups}

    async def run(self) -> None:
        """Consider policies when they are due, until cancelled."""
        await self._kept.recall()
        for name in POLICIES:
            self._schedule(name)
        for name in self._active():
            self._tell_if_off(name)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch.run)
                while True:
                    await self._round()
        finally:
            with trio.move_on_after(_LAST, shield=True):
                await self._kept.save_if_possible()

    def _active(self) -> list[str]:
        return [name for name in POLICIES if self._settings[name].mode != "off"]

    def _longest(self) -> float:
        return max(settings.cool_down_seconds for settings in self._settings.values())

    def _schedule(self, name: str) -> None:
        period = self._settings[name].every_seconds
        self._due[name] = trio.current_time() + period if name in self._active() else inf

    def _save_soon(self) -> None:
        self._kept.unsaved = True
        self._news.set()

    async def _round(self) -> None:
        """Wait until something is due, and consider what is, in order."""
        with trio.move_on_at(min(self._due.values())):
            await self._news.wait()
        self._news = trio.Event()
        due = {}
        for name in POLICIES:
            trigger = self._triggers.pop(name, None)
            if self._due[name] <= trio.current_time():
                trigger = trigger or "timer"
                self._schedule(name)
            if trigger is not None and name in self._active():
                due[name] = trigger
        taken: dict[str, str] = {}
        for remedy in ORDER:
            if remedy.policy not in due:
                continue
            try:
                await self._consider(remedy, due[remedy.policy], taken)
            except Exception as error:  # a defect, and no reason to end the daemon
                _log.exception("policy failed", policy=remedy.policy)
                why = f"{type(error).__name__}: {error}"
                self._decided(remedy, due[remedy.policy], None, FAILED, why)
        await self._kept.save_if_possible()

    # Deciding

    async def _consider(self, remedy: Remedy, trigger: str, taken: dict[str, str]) -> None:
        """Decide about each node group, and do what was decided. ``taken`` are groups in which something is
        done, or would be, in this round, and what; more are added.
        """
        settings, memory = self._settings[remedy.policy], self._kept.known.memories[remedy.policy]
        try:
            if self._kept.unreadable is not None:
                raise HtoolsError(self._kept.unreadable)
            cluster, found = await self._judging.situations(remedy)
        except HtoolsError as error:
            self._decided(remedy, trigger, None, HELD, str(error))
            return
        seen = [counted(settings, each) for each in found]
        memory.rounds[remedy.title] = {each.group: each.rounds for each in seen}
        self._kept.unsaved = True
        last = self._last[remedy.title]
        self._last[remedy.title] = {each.group: last[each.group] for each in seen if each.group in last}
        for each in seen:
            first = taken.get(each.group)
            quiet = [group for group in each.quiet if group not in taken]
            each = replace(each, quiet=quiet, others=f"{first} comes first" if first else None)
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
        generations, mode = self._sync.model.generations, self._settings[remedy.policy].mode
        planned = await self._judging.planned(remedy, cluster, seen)
        if planned.refusal is not None:
            self._decided(remedy, trigger, seen, HELD, planned.refusal, planned)
            return ()
        groups = planned.proposal.groups
        if mode == "shadow":
            self._acted(remedy, groups)
            self._decided(remedy, trigger, seen, WOULD, planned.summary, planned)
            return groups
        by = {"uid": os.getuid(), "pid": os.getpid()}
        plan = made(remedy.tool, planned.options, planned.proposal, generations, by, policy=remedy.policy)
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
        memory, before = known.memories[remedy.policy], (dict(known.moved), dict(known.switched))
        spent = Spent(now, planned.moves, planned.mib)
        memory.spend(spent)
        known.moved |= dict.fromkeys((move["instance"] for move in planned.told()), now)
        known.switched |= dict.fromkeys(planned.nodes, now)
        self._acted(remedy, planned.proposal.groups)
        try:
            await self._kept.save()
            await self._plans.add(plan)
            await self._plans.begin(plan, "stop", False)
        except (HtoolsError, RefusalError) as error:
            memory.spent.remove(spent)
            known.moved, known.switched = before
            self._kept.unsaved = True
            raise HtoolsError(f"not begun: {error}") from None

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
        done = planned if planned and planned.refusal is None else None
        decision = Decision(
            now,
            remedy.policy,
            remedy.title,
            self._settings[remedy.policy].mode,
            trigger,
            group,
            outcome,
            reason,
            {"before": seen.score if seen else None, "after": done.after if done else None},
            plan.id if plan else None,
            tuple(done.told()) if done else (),
            done.nodes if done else (),
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
