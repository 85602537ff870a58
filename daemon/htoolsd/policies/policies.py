"""Policies at work: when they look at the cluster, what they decide, and what becomes of it.

A timer, somebody who asks, and events of the cluster all end in ``_consider``, one at a time. Each decision
goes into the history with its reason. What a plan takes of the budgets is on disk before it begins.
"""

import copy
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from math import inf
from typing import Any

import structlog
import trio

from ganeti_htools.client.protocol import RefusalError
from ganeti_htools.execution.run import Ending
from ganeti_htools.files import write_text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from htoolsd.plans.making import made
from htoolsd.plans.plan import Plan
from htoolsd.plans.plans import Plans
from htoolsd.policies import kept
from htoolsd.policies.changes import events, moved
from htoolsd.policies.conditions import Situation, counted, holding
from htoolsd.policies.looking import measured, situations
from htoolsd.policies.memory import Memory, Rounds, Spent, resting
from htoolsd.policies.policy import Decision, Planned, Policy
from htoolsd.policies.rebalance import REBALANCE
from htoolsd.policies.settings import Settings
from htoolsd.sync.following import Sync

_log = structlog.get_logger()

POLICIES: Mapping[str, Policy] = {policy.name: policy for policy in (REBALANCE,)}  # in their order
_WATCH = 5.0  # seconds between looks at what has changed
_LAST = 2.0  # seconds for the last write

HELD, WOULD, PROPOSED, BEGUN, FAILED = "held back", "would act", "proposed", "begun", "failed"


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
        self._path = path
        self._sync = sync
        self._plans = plans
        self._settings = dict(settings)
        self._note = note
        self._clock = clock
        self._memories = {name: Memory() for name in POLICIES}
        self._moved: dict[str, float] = {}
        self._unreadable: str | None = None
        self._due = dict.fromkeys(POLICIES, inf)
        self._triggers: dict[str, str] = {}
        self._news = trio.Event()
        self._last: dict[str, dict[str, Decision]] = {name: {} for name in POLICIES}
        self._turn = trio.CapacityLimiter(1)
        self._seen = sync.model
        self._lost: dict[str, set[str]] = {name: set() for name in POLICIES}
        self._unsaved = False

    def limit(self, settings: Mapping[str, Settings]) -> None:
        """Heed these settings from now on."""
        changed = [name for name in POLICIES if settings[name] != self._settings[name]]
        self._settings = dict(settings)
        for name in changed:
            self._schedule(name)
        self._news.set()

    def want(self, name: str, trigger: str) -> None:
        """Have a policy considered at once, unless it is off; ``trigger`` says why."""
        if self._settings[name].mode != "off":
            self._triggers.setdefault(name, trigger)
            self._news.set()

    def forget_failures(self, name: str) -> None:
        """Have a policy go on that plans which failed have switched off."""
        self._memories[name].forget_failures()
        self._save_soon()

    def ended(self, plan: Plan) -> None:
        """Count a plan of a policy that has ended: whether it failed."""
        name = str(plan.facts.get("policy"))
        if name not in POLICIES or plan.ended is None:
            return
        memory, settings = self._memories[name], self._settings[name]
        if plan.run.ending is Ending.DONE:
            memory.forget_failures()
        elif plan.run.ending in (Ending.FAILED, Ending.LOST):
            memory.fail(settings, self._clock(), plan.error or "for no known reason")
            if memory.failed >= settings.failures:
                _log.error("policy switched off", policy=name, failed=memory.failed, error=memory.error)
        self._save_soon()

    def status(self) -> list[dict[str, Any]]:
        """Each policy: its mode, what it decided last, when it is considered next, what its budgets leave."""
        return [self._told(name) for name in POLICIES]

    def _told(self, name: str) -> dict[str, Any]:
        settings, memory, now = self._settings[name], self._memories[name], self._clock()
        wait = self._due[name] - trio.current_time()
        return {
            "name": name,
            "tool": POLICIES[name].tool,
            "mode": settings.mode,
            "last": [asdict(decision) for decision in self._last[name].values()],
            "next": now + wait if wait < inf else None,
            "left": memory.left(settings, now)._asdict(),
            "failed": memory.failed,
            "error": memory.error or None,
            "off": memory.failed >= settings.failures,
        }

    async def explain(self, name: str) -> dict[str, Any]:
        """What a policy would do now in each group, and which conditions hold it back. Raises HtoolsError."""
        policy, settings = POLICIES[name], self._settings[name]
        cluster, seen = await situations(policy, settings, self._sync, self._plans, self._clock)
        groups = []
        for each in seen:
            memory = copy.copy(self._memories[name])
            memory.rounds = {each.group: self._counted(name, each)}
            planned = await self._planned(policy, cluster, each)
            held = [{"condition": what, "reason": reason} for what, reason in holding(settings, memory, each)]
            if planned.refusal is not None:
                held.append({"condition": "gain", "reason": planned.refusal})
            groups.append(
                {
                    "group": each.group,
                    "score": {"before": each.score, "after": planned.proposal.score["after"]},
                    "n1": each.n1,
                    "held": held,
                    "moves": planned.told(),
                    "mib": planned.mib,
                }
            )
        return {**self._told(name), "groups": groups}

    async def run(self) -> None:
        """Consider policies when they are due, until cancelled."""
        try:
            found, self._moved = await trio.to_thread.run_sync(kept.read, self._path)
            self._memories |= {name: memory for name, memory in found.items() if name in POLICIES}
        except HtoolsError as error:
            self._unreadable = str(error)
            _log.error("policies hold back", error=str(error))
        for name in POLICIES:
            self._schedule(name)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch)
                while True:
                    await self._round()
        finally:
            if self._unsaved:
                with trio.move_on_after(_LAST, shield=True):
                    await self._save_if_possible()

    def _schedule(self, name: str) -> None:
        settings = self._settings[name]
        off = settings.mode == "off"
        self._due[name] = inf if off else trio.current_time() + settings.every_seconds

    async def _round(self) -> None:
        """Wait until something is due, and consider what is, in the order of the policies."""
        with trio.move_on_at(min(self._due.values())):
            await self._news.wait()
        self._news = trio.Event()
        if self._unsaved:
            await self._save_if_possible()
        for name, policy in POLICIES.items():
            trigger = self._triggers.pop(name, None)
            if self._due[name] <= trio.current_time():
                trigger = trigger or "timer"
                self._schedule(name)
            if trigger is None or self._settings[name].mode == "off":
                continue
            try:
                await self._consider(policy, trigger)
            except Exception as error:  # a defect, and no reason to end the daemon
                _log.exception("policy failed", policy=name)
                self._decided(policy, trigger, None, FAILED, f"{type(error).__name__}: {error}")

    # Deciding

    async def _consider(self, policy: Policy, trigger: str) -> None:
        """Decide about each node group, and do what was decided."""
        settings, memory = self._settings[policy.name], self._memories[policy.name]
        try:
            if self._unreadable is not None:
                raise HtoolsError(self._unreadable)
            cluster, seen = await situations(policy, settings, self._sync, self._plans, self._clock)
            memory.rounds = {each.group: self._counted(policy.name, each) for each in seen}
            self._last[policy.name] = {
                group: last for group, last in self._last[policy.name].items() if group in memory.rounds
            }
        except HtoolsError as error:
            self._decided(policy, trigger, None, HELD, str(error))
            return
        for each in seen:
            held = next(holding(settings, memory, each), None)
            if held is not None:
                self._decided(policy, trigger, each, HELD, held[1])
                continue
            try:
                await self._act(policy, trigger, cluster, each)
            except HtoolsError as error:
                self._decided(policy, trigger, each, FAILED, str(error))

    def _counted(self, name: str, seen: Situation) -> Rounds:
        rounds = self._memories[name].rounds.get(seen.group, Rounds())
        return counted(rounds, self._settings[name], seen)

    async def _planned(self, policy: Policy, cluster: Cluster, seen: Situation) -> Planned:
        """What a policy would do in a group. Raises HtoolsError."""
        settings, memory = self._settings[policy.name], self._memories[policy.name]
        stay = resting(self._moved, settings, seen.now)
        room = memory.room(settings, seen.now)
        return await trio.to_thread.run_sync(
            policy.planned,
            cluster,
            settings,
            seen,
            stay,
            room,
            lambda _text: trio.from_thread.check_cancelled(),
            abandon_on_cancel=True,
            limiter=self._turn,
        )

    async def _act(self, policy: Policy, trigger: str, cluster: Cluster, seen: Situation) -> None:
        """Do in a group what the mode says. Raises HtoolsError."""
        generations, mode = self._sync.model.generations, self._settings[policy.name].mode
        planned = await self._planned(policy, cluster, seen)
        if planned.refusal is not None:
            self._decided(policy, trigger, seen, HELD, planned.refusal, planned)
            return
        reason = f"{planned.moves} moves, {planned.mib} MiB"
        if mode == "shadow":
            self._decided(policy, trigger, seen, WOULD, reason, planned)
            return
        by = {"uid": os.getuid(), "pid": os.getpid()}
        plan = made(policy.tool, planned.options, planned.proposal, generations, by, policy=policy.name)
        if mode == "propose":
            await self._plans.add(plan)
            self._decided(policy, trigger, seen, PROPOSED, reason, planned, plan)
            return
        await self._begin(policy, plan, planned)
        self._decided(policy, trigger, seen, BEGUN, reason, planned, plan)

    async def _begin(self, policy: Policy, plan: Plan, planned: Planned) -> None:
        """Begin a plan once it is on disk what it takes. Raises HtoolsError."""
        memory, before, now = self._memories[policy.name], dict(self._moved), self._clock()
        spent = Spent(now, planned.moves, planned.mib)
        memory.spend(spent)
        self._moved |= dict.fromkeys((move["instance"] for move in planned.told()), now)
        try:
            await self._save()
            await self._plans.add(plan)
            await self._plans.begin(plan, "stop", False)
        except (HtoolsError, RefusalError) as error:
            memory.spent.remove(spent)
            self._moved = before
            self._unsaved = True
            raise HtoolsError(f"not begun: {error}") from None

    def _decided(
        self,
        policy: Policy,
        trigger: str,
        seen: Situation | None,
        outcome: str,
        reason: str,
        planned: Planned | None = None,
        plan: Plan | None = None,
    ) -> None:
        now, group = self._clock(), seen.group if seen else ""
        last = self._last[policy.name].get(group)
        after = planned.proposal.score["after"] if planned and planned.refusal is None else None
        decision = Decision(
            now,
            policy.name,
            self._settings[policy.name].mode,
            trigger,
            group,
            outcome,
            reason,
            {"before": seen.score if seen else None, "after": after},
            plan.id if plan else None,
            tuple(planned.told()) if planned else (),
            self._since(last) if last and last.outcome == WOULD else None,
        )
        self._last[policy.name][group] = decision
        told = {"policy": policy.name, "group": group, "outcome": outcome, "reason": reason}
        _log.info("policy decided", **told, trigger=trigger)
        self._note(decision)

    def _since(self, last: Decision) -> dict[str, Any]:
        """What came of the cluster after moves that were only computed."""
        here = {name for name, when in self._moved.items() if when >= last.time}
        return {"time": last.time, "expected": last.score["after"], "moved": sorted(here)}

    # Watching

    async def _watch(self) -> None:
        """Note what moves, and have policies considered when nodes come and go or N+1 is lost."""
        while True:
            await trio.sleep(_WATCH)
            model, before = self._sync.model, self._seen
            active = [name for name in POLICIES if self._settings[name].mode != "off"]
            if model.cluster is None or model.cluster is before.cluster or not active:
                continue
            self._seen = model
            if before.cluster is not None:
                self._note_moves(before.cluster, model.cluster)
                for event in events(before, model):
                    for name in active:
                        self.want(name, event)
            for name in active:
                await self._look_for_loss(POLICIES[name], model.cluster)

    def _note_moves(self, before: Cluster, now: Cluster) -> None:
        names = dict.fromkeys(moved(before, now), self._clock())
        if names:
            longest = max(settings.cool_down_seconds for settings in self._settings.values())
            oldest = self._clock() - longest
            self._moved = {name: when for name, when in self._moved.items() if when > oldest} | names
            self._save_soon()

    async def _look_for_loss(self, policy: Policy, cluster: Cluster) -> None:
        """Have a policy considered when a group has lost N+1."""
        try:
            found = await trio.to_thread.run_sync(measured, policy, cluster, abandon_on_cancel=True)
        except HtoolsError:
            return  # told when the policy is considered
        lost = {group for group, _, n1 in found if n1}
        for group in sorted(lost - self._lost[policy.name]):
            self.want(policy.name, f"group {group} has lost N+1")
        self._lost[policy.name] = lost

    # Keeping

    def _save_soon(self) -> None:
        self._unsaved = True
        self._news.set()

    async def _save(self) -> None:
        """Raises HtoolsError."""
        self._unsaved = False
        await trio.to_thread.run_sync(write_text, self._path, kept.text(self._memories, self._moved))

    async def _save_if_possible(self) -> None:
        if self._unreadable is not None:
            return
        try:
            await self._save()
        except HtoolsError as error:
            _log.error("what policies have spent is not recorded", error=str(error))
