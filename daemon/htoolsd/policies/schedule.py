"""The coordinator of the policies: when they are considered, and all their effects.

A timer, a request and an event of the cluster all end in :meth:`Policies._round`, which considers the
remedies that are due, one after the other, in the order of ``ORDER``. A policy submits no jobs itself: its
plans are the daemon's plans and are reviewed before each jobset. What a plan takes of the budgets is on disk
before the plan begins (:mod:`htoolsd.policies.memory`).
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from math import inf
from typing import Any

import structlog
import trio

from ganeti_htools.client.protocol import RefusalError
from ganeti_htools.execution.run import Ending
from ganeti_htools.luxi.past_jobs import past_jobs, plan_entry
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.nursery import open_nursery
from ganeti_htools.planning.plan import Proposal
from ganeti_htools.planning.squeezing import power_jobs
from htoolsd.config.policies import PolicySettings
from htoolsd.config.settings import Settings
from htoolsd.plans.plan import Plan, new_plan
from htoolsd.plans.plans import Plans
from htoolsd.policies import decision, evaluate, observe, succession
from htoolsd.policies.conditions import Situation, stop_reason, with_next_round
from htoolsd.policies.decision import BEGUN, FAILED, HELD, PROPOSED, WOULD, PolicyDecision
from htoolsd.policies.memory import DAY, Charge, Expense, MemoryFile, PolicyMemory
from htoolsd.policies.names import named_objects, remembered, unknown_names
from htoolsd.policies.observe import Observation, PolicyInputs
from htoolsd.policies.remedies import ORDER, POLICIES
from htoolsd.policies.remedy import Remedy, RemedyPlan
from htoolsd.store.state_copies import StateCopies
from htoolsd.sync.model import Model
from htoolsd.sync.sync import Sync
from htoolsd.tasks import keep_running
from htoolsd.threads import Computations

_log = structlog.get_logger()

_LAST_SECONDS = 2.0  # for the last write
_WATCH_SECONDS = 5.0  # between looks for changes of the cluster
_MEMORY = "policies"  # the name of the memory's copy; plans have their ids


class Policies:
    """All policies. Their memory is in the file at ``path``; ``note`` is called with each decision.

    ``copies`` are those of this file and of the plans' records in a shared ledger.
    """

    def __init__(
        self,
        path: str,
        sync: Sync,
        plans: Plans,
        settings: Settings,
        note: Callable[[PolicyDecision], None],
        clock: Callable[[], float] = time.time,
        copies: StateCopies | None = None,
    ) -> None:
        memory = MemoryFile(path, POLICIES, lambda content: copies.put(_MEMORY, content) if copies else None)
        self._inputs = PolicyInputs(sync, plans, memory, settings, clock)
        self._copies = copies
        self._note = note
        self._due = dict.fromkeys(POLICIES, inf)
        self._triggers: dict[str, str] = {}
        self._wake = trio.Event()
        self._succeeding = trio.Lock()
        self._charges: dict[str, Charge] = {}  # by plans that have begun
        self._outcomes: dict[str, Counter[str]] = {
            name: Counter(dict.fromkeys(decision.OUTCOMES, 0)) for name in POLICIES
        }
        self._last: dict[str, dict[str, PolicyDecision]] = {remedy.title: {} for remedy in ORDER}

    # Requests

    def request(self, name: str, trigger: str) -> None:
        """Consider a policy at once, unless it is off; ``trigger`` is the reason."""
        if name in self._active():
            self._triggers.setdefault(name, trigger)
            self._wake.set()

    def forget_failures(self, name: str) -> None:
        """Switch a policy on again that failed plans have switched off."""
        self._memory(name).failures.clear()
        self._save_soon()

    def ended(self, plan: Plan) -> None:
        """Count whether a policy's plan that has ended failed, and end cool-downs that it did not cause.

        Repairs that failed do not count: their instances have a record, so they are not tried again.
        """
        name = str(plan.facts.get("policy"))
        if name not in POLICIES or plan.ended is None:
            return
        charge = self._charges.pop(plan.id, None)
        if charge is not None:
            rest = plan.run.rest
            instances = [job.step.instance for jobs in rest for job in jobs if job.step is not None]
            self._inputs.memory.content.release(charge, instances, power_jobs.nodes_to_mark(rest))
        memory = self._memory(name)
        settings, now, failed = self._inputs.settings[name], self._inputs.clock(), plan.run.failed
        bounds = plan.facts.get("bounds")
        for group in [bounds["group"]] if bounds else plan.facts["groups"]:
            if plan.run.ending is Ending.DONE:
                memory.forget_failures(group)
            elif plan.run.ending is Ending.LOST or (
                plan.run.ending is Ending.FAILED and (not failed or any(task.fatal for task in failed))
            ):
                memory.count_failure(settings, now, plan.error or "unknown error", group)
                self._log_if_off(name)
        self._save_soon()

    # Reports

    def status(self) -> list[dict[str, Any]]:
        """Return each policy as JSON: mode, last decisions, time of the next round, rest of the budgets."""
        return [self._to_json(name) for name in POLICIES]

    def health(self) -> list[dict[str, Any]]:
        """Return each policy's mode, health, last decision and number of decisions by outcome as JSON."""
        settings, now = self._inputs.settings, self._inputs.clock()
        return [
            decision.policy_summary(name, settings[name], self._memory(name), self._last_of(name), now)
            | {"outcomes": dict(self._outcomes[name]), **self._named(name)}
            for name in POLICIES
        ]

    async def explain(self, name: str, computations: Computations) -> dict[str, Any]:
        """Return as JSON what a policy would do now in each group, and what holds it back.

        Raises HtoolsError, RefusalError.
        """
        groups = await evaluate.explain_groups(replace(self._inputs, computations=computations), name)
        return {**self._to_json(name), "groups": groups}

    async def remake_proposal(self, facts: Mapping[str, Any]) -> Proposal:
        """Make the plan of a policy of an earlier daemon again. Raises HtoolsError."""
        return await evaluate.remake_proposal(self._inputs, facts)

    def _to_json(self, name: str) -> dict[str, Any]:
        settings, now = self._inputs.settings[name], self._inputs.clock()
        wait = self._due[name] - trio.current_time()
        due = now + wait if wait < inf else None
        report = decision.policy_to_json(name, settings, self._memory(name), self._last_of(name), due, now)
        return {**report, **self._named(name)}

    def _named(self, name: str) -> dict[str, Any]:
        """Return as JSON the groups in which a policy may act, and the names that mean nothing."""
        cluster, settings = self._inputs.sync.model.available, self._inputs.settings[name]
        if cluster is None:
            return {"acts_in": None, "unknown": {}}
        unknown = unknown_names(settings, named_objects(cluster), self._inputs.memory.content.uuids)
        return {"acts_in": self._inputs.groups(name, cluster), "unknown": unknown}

    def _last_of(self, name: str) -> list[PolicyDecision]:
        """Return the last decision of each remedy of a policy about each group."""
        return [last for each in POLICIES[name] for last in self._last[each.title].values()]

    def _memory(self, name: str) -> PolicyMemory:
        return self._inputs.memory.content.memories[name]

    def _log_if_off(self, name: str) -> None:
        memory = self._memory(name)
        if groups := memory.groups_off(self._inputs.settings[name]):
            failed, error, _ = memory.worst
            _log.error("policy switched off", policy=name, groups=groups, failed=failed, error=error)

    # The schedule

    async def run(self) -> None:
        """Consider policies when they are due, until cancelled."""
        await self._inputs.memory.load()
        for name in self._active():
            self._log_if_off(name)
        try:
            async with open_nursery() as nursery:
                nursery.start_soon(keep_running, "settings of policies", self._follow_settings)
                nursery.start_soon(keep_running, "events for policies", self._watch)
                nursery.start_soon(keep_running, "policies", self._consider_when_due)
        finally:
            with trio.move_on_after(_LAST_SECONDS, shield=True):
                await self._inputs.memory.save_changes()

    def _active(self) -> list[str]:
        return [name for name in POLICIES if self._inputs.settings[name].mode != "off"]

    def _schedule(self, name: str) -> None:
        period = self._inputs.settings[name].every_seconds
        self._due[name] = trio.current_time() + period if name in self._active() else inf

    async def _follow_settings(self) -> None:
        """Schedule each policy anew whose settings have changed."""
        before: Mapping[str, PolicySettings] = {}
        while True:
            changed, settings = self._inputs.configuration.changed, self._inputs.settings
            self._remember_names()
            for name in POLICIES:
                if settings[name] != before.get(name):
                    self._schedule(name)
            before = settings
            self._wake.set()
            await changed.wait()

    def _save_soon(self) -> None:
        self._inputs.memory.dirty = True
        self._wake.set()

    async def _consider_when_due(self) -> None:
        while True:
            await self._round()

    async def _round(self) -> None:
        """Wait until a policy is due or requested, and consider all such policies."""
        with trio.move_on_at(min(self._due.values())):
            await self._wake.wait()
        self._wake = trio.Event()
        due = {}
        for name in POLICIES:
            trigger = self._triggers.pop(name, None)
            if self._due[name] <= trio.current_time():
                trigger = trigger or "timer"
                self._schedule(name)
            if trigger is not None and name in self._active():
                due[name] = trigger
        taken: dict[str, str] = {}
        seen = await self._look() if due else None
        for remedy in ORDER:
            if remedy.policy in due and seen is not None:
                await self._consider(remedy, due[remedy.policy], seen, taken)
        await self._inputs.memory.save_changes()

    async def _watch(self) -> None:
        """Note what has moved or come back, and consider active policies after events of the cluster."""
        before, without_n1 = self._inputs.sync.model, set[str]()
        self._remember_names()
        while True:
            with suppress(HtoolsError):  # the next decision of a policy reports it
                await self._take_over()
            await trio.sleep(_WATCH_SECONDS)
            model = self._inputs.sync.model
            if model.cluster is before.cluster:
                continue
            await self._note_changes(before, model)
            self._remember_names()
            if active := self._active():
                events = list(observe.node_events(before, model)) if before.cluster is not None else []
                lost = await _groups_without_n1(model, self._inputs.computations)
                if lost is not None:
                    events += (
                        f"group {group} has lost N+1 redundancy" for group in sorted(lost - without_n1)
                    )
                    without_n1 = lost
                for event in events:
                    for name in active:
                        self.request(name, event)
            await self._inputs.memory.save_changes()
            before = model

    def _remember_names(self) -> None:
        """Remember which objects settings mean, so that they are found after a renaming."""
        inputs, content = self._inputs, self._inputs.memory.content
        cluster = inputs.sync.model.available
        if cluster is None:
            return
        found = remembered(inputs.settings.values(), named_objects(cluster), content.uuids)
        if found != content.uuids:
            content.uuids, inputs.memory.dirty = found, True

    async def _note_changes(self, before: Model, model: Model) -> None:
        old, new, memory = before.cluster, model.cluster, self._inputs.memory
        if old is None or new is None:
            return
        now = self._inputs.clock()
        moved, returned = await self._inputs.computations.run(
            lambda _pause: (
                dict.fromkeys(observe.moved_instances(old, new), now),
                dict.fromkeys(observe.returned_nodes(old, new), now),
            )
        )
        if moved or returned:
            longest = max(settings.cool_down_seconds for settings in self._inputs.settings.values())
            memory.content.forget(now - longest)
            memory.content.moved |= moved
            memory.content.switched |= returned
            memory.dirty = True

    async def _take_over(self) -> None:
        """Count what the daemons before this one did, and adopt a plan that they left. Raises HtoolsError.

        Done once, and again after each time in which another daemon may have acted.
        """
        inputs, memory = self._inputs, self._inputs.memory
        async with self._succeeding:
            if (why := inputs.sync.obstacle()) is not None:
                memory.complete = False
                if self._copies is not None:
                    self._copies.hold()
                raise HtoolsError(why)
            if memory.complete or memory.unreadable is not None:
                return
            if not inputs.sync.master or inputs.sync.model.cluster is None:
                raise HtoolsError("the cluster is not known yet")
            if self._copies is not None:
                others = await self._copies.fetch()
                if content := others.pop(_MEMORY, None):
                    memory.adopt(content)
                await inputs.plans.adopt_records(others)
            async with inputs.sync.client() as ganeti:
                jobs = await past_jobs(ganeti, inputs.clock() - DAY)
            if memory.content.take_over(
                succession.expenses(jobs), succession.moved(jobs), succession.switched(jobs)
            ):
                memory.dirty = True
            known, since = {plan.id for plan in inputs.plans.all}, inputs.plans.last_change
            for plan in succession.unfinished_plans(jobs, known, since):
                await inputs.plans.adopt(plan)
            memory.complete = True

    # Decisions

    async def _look(self) -> Observation | Exception:
        """Observe the cluster for a round; return the reason where that is not possible."""
        inputs, memory = self._inputs, self._inputs.memory
        memory.content.clamp_times(inputs.clock(), inputs.settings)
        try:
            if memory.unreadable is not None:
                raise HtoolsError(memory.unreadable)
            await self._take_over()
            return await observe.look(inputs)
        except Exception as error:  # each remedy decides by it
            return error

    async def _consider(
        self, remedy: Remedy, trigger: str, seen: Observation | Exception, taken: dict[str, str]
    ) -> None:
        """Decide about each node group, and act. ``taken`` has the groups in which a remedy has acted in this
        round, or would have, and its title; more are added.
        """
        try:
            await self._consider_groups(remedy, trigger, seen, taken)
        except Exception as error:  # a defect must not end the daemon
            _log.exception("policy failed", policy=remedy.policy)
            self._decide(remedy, trigger, None, FAILED, f"{type(error).__name__}: {error}")

    async def _consider_groups(
        self, remedy: Remedy, trigger: str, seen: Observation | Exception, taken: dict[str, str]
    ) -> None:
        inputs, memory = self._inputs, self._inputs.memory
        try:
            if isinstance(seen, Exception):
                raise seen
            found = await observe.situations(inputs, remedy, seen)
        except HtoolsError as error:
            self._decide(remedy, trigger, None, HELD, str(error))
            return
        situations = [with_next_round(inputs.settings[remedy.policy], each) for each in found]
        self._memory(remedy.policy).keep_failures({group.name for group in seen.cluster.groups})
        self._memory(remedy.policy).rounds[remedy.title] = {each.group: each.rounds for each in situations}
        memory.dirty = True
        last = self._last[remedy.title]
        self._last[remedy.title] = {each.group: last[each.group] for each in situations if each.group in last}
        for situation in situations:
            try:
                groups = await self._consider_group(remedy, trigger, seen, _without(taken, situation))
                taken |= dict.fromkeys(groups, remedy.title)
            except HtoolsError as error:
                self._decide(remedy, trigger, situation, FAILED, str(error))

    async def _consider_group(
        self, remedy: Remedy, trigger: str, seen: Observation, situation: Situation
    ) -> Sequence[str]:
        """Decide about a group and do what the mode says; return the groups that are changed, or would be.

        Raises HtoolsError.
        """
        inputs = self._inputs
        held = next((why for _, why in evaluate.obstacles_to(inputs, remedy, situation)), None)
        held = held or await evaluate.conflict_of(inputs, remedy, situation, seen)
        if held is not None:
            self._decide(remedy, trigger, situation, HELD, held)
            return ()
        generations = seen.model.generations
        planned = await evaluate.make_plan(inputs, remedy, seen.cluster, situation.bounds)
        # Planning may have taken long, so the group is observed again.
        held = planned.refusal or await evaluate.obstacle_now(inputs, remedy, situation.group)
        if held is not None:
            self._decide(remedy, trigger, situation, HELD, held)
            return ()
        groups, mode = planned.proposal.groups, inputs.settings[remedy.policy].mode
        if mode == "shadow":
            self._note_action(remedy, groups)
            self._decide(remedy, trigger, situation, WOULD, planned.summary, planned)
            return groups
        by = {"uid": os.getuid(), "pid": os.getpid()}
        origin = {"policy": remedy.policy, "remedy": remedy.title, "bounds": situation.bounds.to_json()}
        plan = new_plan(remedy.tool, planned.options, planned.proposal, generations, by, **origin)
        if mode == "propose":
            await inputs.plans.add(plan)
            self._note_action(remedy, groups)
            self._decide(remedy, trigger, situation, PROPOSED, planned.summary, planned, plan)
        else:
            await self._begin(remedy, plan, planned)
            self._decide(remedy, trigger, situation, BEGUN, planned.summary, planned, plan)
        return groups

    def _note_action(self, remedy: Remedy, groups: Sequence[str]) -> None:
        self._memory(remedy.policy).note_action(remedy.title, groups, self._inputs.clock())
        self._inputs.memory.dirty = True

    async def _begin(self, remedy: Remedy, plan: Plan, planned: RemedyPlan) -> None:
        """Begin a plan once its expense is on disk. Raises HtoolsError; then the plan is gone."""
        inputs, memory = self._inputs, self._inputs.memory
        expense = Expense(inputs.clock(), planned.moves, planned.mib, plan.id)
        entry = plan_entry(remedy.policy, expense.moves, expense.mib)
        plan.run.signature = replace(plan.run.signature, plan=entry)
        instances = [move["instance"] for move in planned.moves_to_json()]
        charge = memory.content.charge(remedy.policy, expense, instances, planned.nodes)
        self._note_action(remedy, planned.proposal.groups)
        plan.over = lambda: stop_reason(
            inputs.settings[remedy.policy], datetime.fromtimestamp(inputs.clock())
        )
        self._charges[plan.id] = charge
        try:
            await memory.save()
            await inputs.plans.add(plan)
            await inputs.plans.begin(plan, "stop", False)
        except (HtoolsError, RefusalError) as error:
            memory.content.refund(charge)
            del self._charges[plan.id]
            memory.dirty = True
            await inputs.plans.forget(plan)  # it is no proposal
            raise HtoolsError(f"the plan did not begin: {error}") from None

    def _decide(
        self,
        remedy: Remedy,
        trigger: str,
        situation: Situation | None,
        outcome: str,
        reason: str,
        planned: RemedyPlan | None = None,
        plan: Plan | None = None,
    ) -> None:
        """Log, note and remember a decision."""
        inputs, group = self._inputs, situation.group if situation else ""
        last = self._last[remedy.title].get(group)
        new = PolicyDecision(
            inputs.clock(),
            remedy.policy,
            remedy.title,
            inputs.settings[remedy.policy].mode,
            trigger,
            group,
            outcome,
            reason,
            {"before": situation.score if situation else None, "after": planned.after if planned else None},
            plan.id if plan else None,
            tuple(planned.moves_to_json()) if planned else (),
            planned.nodes if planned else (),
            decision.since_shadow(last, inputs.memory.content.moved),
        )
        self._last[remedy.title][group] = new
        self._outcomes[remedy.policy][outcome] += 1
        about = {
            "policy": remedy.policy,
            "remedy": remedy.title,
            "group": group,
            "outcome": outcome,
            "reason": reason,
        }
        _log.info("policy decided", **about, trigger=trigger)
        self._note(new)


def _without(taken: Mapping[str, str], situation: Situation) -> Situation:
    """Return the situation with the groups that are taken in this round as busy."""
    first = taken.get(situation.group)
    quiet = tuple(group for group in situation.bounds.quiet if group not in taken)
    bounds = situation.bounds._replace(quiet=quiet)
    return replace(situation, bounds=bounds, conflict=f"{first} comes first" if first else None)


async def _groups_without_n1(model: Model, computations: Computations) -> set[str] | None:
    """Return the groups with nodes that fail N+1; None where that cannot be computed."""
    cluster = model.cluster
    if cluster is None:
        return None
    try:
        return await computations.run(lambda _pause: observe.groups_without_n1(cluster))
    except HtoolsError:  # the next decision of a policy reports it
        return None
