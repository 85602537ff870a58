"""The coordinator of the policies: when they are considered, and all their effects.

A timer, a request and an event of the cluster all end in :meth:`Policies._round`. It observes the cluster
once, and considers the remedies that are due, one after the other, in the order of ``ORDER``. A policy
submits no jobs itself: its plans are the daemon's plans and are reviewed before each jobset. What a plan
takes of the budgets is on disk before the plan begins (:mod:`htoolsd.policies.memory`).
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from math import inf
from typing import Any

import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.client.protocol import RefusalError
from ganeti_htools.execution.run import Ending
from ganeti_htools.luxi import job_queries, queries
from ganeti_htools.luxi.past_jobs import past_jobs, plan_entry
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.load import PresentLoad
from ganeti_htools.nursery import open_nursery
from ganeti_htools.planning.plan import Proposal
from ganeti_htools.planning.squeezing import power_jobs
from ganeti_htools.records import JSON
from htoolsd.config.policies import PolicySettings
from htoolsd.config.settings import Settings
from htoolsd.events import DaemonEvent, EventStream
from htoolsd.plans.plan import Plan, PlanChanged, new_plan
from htoolsd.plans.plans import Plans
from htoolsd.policies import evaluate, observe, succession, verdict
from htoolsd.policies.conditions import Situation, stop_reason, with_next_round
from htoolsd.policies.memory import COPY, DAY, Charge, Expense, MemoryFile, PolicyMemory
from htoolsd.policies.names import groups_of, named_objects, unknown_names, uuids_of, with_present_names
from htoolsd.policies.observe import Observation
from htoolsd.policies.remedies import ORDER, POLICIES
from htoolsd.policies.remedy import PlanBounds, Remedy, RemedyPlan
from htoolsd.policies.verdict import BEGUN, FAILED, HELD, PROPOSED, WOULD, PolicyDecision
from htoolsd.store.state_copies import StateCopies
from htoolsd.sync.model import Model
from htoolsd.sync.sync import Sync
from htoolsd.tasks import keep_running, note_defect
from htoolsd.threads import Computations, Pause

_log = structlog.get_logger()

_LAST_SECONDS = 2.0  # for the last write
_WATCH_SECONDS = 5.0  # between looks for changes of the cluster


class Policies:
    """All policies. Their memory is in the file at ``path``; ``events`` get each decision.

    ``copies`` are those of this file and of the plans' records in a shared ledger.
    ``present_load`` returns what instances use.
    """

    def __init__(
        self,
        path: str,
        sync: Sync,
        plans: Plans,
        settings: Settings,
        events: EventStream,
        *,
        copies: StateCopies | None = None,
        present_load: Callable[[], PresentLoad | None] = lambda: None,
    ) -> None:
        self._memory = MemoryFile(path, POLICIES, copies)
        self._sync = sync
        self._plans = plans
        self._configuration = settings
        self._events = events
        self._copies = copies
        self._present_load = present_load
        self._computations = Computations()
        self._due = dict.fromkeys(POLICIES, inf)
        self._triggers: dict[str, str] = {}
        self._wake = trio.Event()
        self._succeeding = trio.Lock()
        self._charges: dict[str, Charge] = {}  # by plans that have begun
        self._outcomes: dict[str, Counter[str]] = {
            name: Counter(dict.fromkeys(verdict.OUTCOMES, 0)) for name in POLICIES
        }
        self._last: dict[str, dict[str, PolicyDecision]] = {remedy.title: {} for remedy in ORDER}

    def now(self) -> float:
        """Return the time, in seconds of the epoch."""
        return machine.now()

    @property
    def _settings(self) -> Mapping[str, PolicySettings]:
        """The settings of each policy, which may change at any time."""
        return self._configuration.now.policies

    # Requests

    def request(self, name: str, trigger: str) -> None:
        """Consider a policy at once, unless it is off; ``trigger`` is the reason."""
        if name in self._active():
            self._triggers.setdefault(name, trigger)
            self._wake.set()

    def forget_failures(self, name: str) -> None:
        """Switch a policy on again that failed plans have switched off."""
        self._memory_of(name).failures.clear()
        self._save_soon()

    def dismiss(self, name: str, group: str, seconds: float) -> float:
        """Have a policy do nothing in a node group, unless N+1 is lost there; return the end of that time."""
        memory, now = self._memory_of(name), self.now()
        present = {group: until for group, until in memory.dismissed.items() if until > now}
        memory.dismissed = present | {group: now + seconds}
        self._save_soon()
        return now + seconds

    def end_dismissals(self, name: str) -> None:
        """Let a policy act again in all groups in which it was dismissed."""
        if self._memory_of(name).dismissed:
            self._memory_of(name).dismissed = {}
            self._save_soon()

    def note(self, event: DaemonEvent) -> None:
        """Note the end of a policy's plan."""
        if isinstance(event, PlanChanged) and event.plan.ended is not None:
            self._note_end(event.plan)

    def _note_end(self, plan: Plan) -> None:
        """Count whether a policy's plan that has ended failed, and end cool-downs that it did not cause.

        Repairs that failed do not count: their instances have a record, so they are not tried again.
        """
        name = str(plan.facts.get("policy"))
        if name not in POLICIES:
            return
        charge = self._charges.pop(plan.id, None)
        if charge is not None:
            rest = plan.run.rest
            instances = [job.step.instance for jobs in rest for job in jobs if job.step is not None]
            self._memory.content.release(charge, instances, power_jobs.nodes_to_mark(rest))
        memory, failed = self._memory_of(name), plan.run.failed
        bounds = plan.facts.get("bounds")
        for group in [bounds["group"]] if bounds else plan.facts["groups"]:
            if plan.run.ending is Ending.DONE:
                memory.forget_failures(group)
            elif plan.run.ending is Ending.LOST or (
                plan.run.ending is Ending.FAILED and (not failed or any(task.fatal for task in failed))
            ):
                why = plan.error or "unknown error"
                memory.count_failure(self._settings[name], self.now(), why, group)
                self._log_if_off(name)
        self._save_soon()

    # Reports

    def status(self) -> list[dict[str, Any]]:
        """Return each policy as JSON: mode, last decisions, time of the next round, rest of the budgets."""
        return [self._to_json(name) | named for name, named in self._named().items()]

    def health(self) -> list[dict[str, Any]]:
        """Return each policy's mode, health, last decision and number of decisions by outcome as JSON."""
        settings, now = self._settings, self.now()
        return [
            verdict.policy_summary(name, settings[name], self._memory_of(name), self._last_of(name), now)
            | {"outcomes": dict(self._outcomes[name]), **named}
            for name, named in self._named().items()
        ]

    async def explain(self, name: str, computations: Computations) -> dict[str, Any]:
        """Return as JSON what a policy would do now in each group, and what blocks it.

        Raises HtoolsError, RefusalError.
        """
        groups, seen = [], await self._observe(computations)
        for remedy in POLICIES[name]:
            for situation in await computations.run(partial(observe.situations, seen, remedy)):
                groups.append(await computations.run(partial(evaluate.explain, seen, situation)))
        return {**self._to_json(name), **self._named()[name], "groups": groups}

    async def remake_proposal(self, facts: Mapping[str, Any]) -> Proposal:
        """Make the plan of a policy of an earlier daemon again, from the facts in its record.

        The plan is for the cluster as it is now, within the same bounds. Raises HtoolsError if there is none.
        """
        remedy = next((each for each in ORDER if each.title == facts["remedy"]), None)
        bounds: PlanBounds | None = JSON.read(PlanBounds | None, "bounds", facts.get("bounds"))
        cluster = self._cluster()
        if remedy is None or bounds is None or cluster is None:
            raise HtoolsError("its record lacks a known remedy or bounds, or the cluster is not known yet")
        if all(row.name != bounds.group for row in cluster.groups):
            raise HtoolsError(f"node group {bounds.group} is gone")
        objects = named_objects(cluster, self._memory.content.uuids)
        settings = with_present_names(self._settings[remedy.policy], objects)
        plan = await self._computations.run(partial(remedy(settings).plan_in_order, cluster, bounds))
        if plan.refusal is not None:
            raise HtoolsError(plan.refusal)
        return plan.proposal

    def _to_json(self, name: str) -> dict[str, Any]:
        now, wait = self.now(), self._due[name] - trio.current_time()
        due = now + wait if wait < inf else None
        last, memory = self._last_of(name), self._memory_of(name)
        return verdict.policy_to_json(name, self._settings[name], memory, last, due, now)

    def _named(self) -> dict[str, dict[str, Any]]:
        """Return by policy, as JSON, the groups in which it may act, and the names that mean nothing."""
        cluster = self._sync.model.available
        if cluster is None:
            return {name: {"acts_in": None, "unknown": {}} for name in POLICIES}
        objects = named_objects(cluster, self._memory.content.uuids)
        return {
            name: {
                "acts_in": groups_of(with_present_names(self._settings[name], objects), cluster),
                "unknown": unknown_names(self._settings[name], objects),
            }
            for name in POLICIES
        }

    def _last_of(self, name: str) -> list[PolicyDecision]:
        """Return the last decision of each remedy of a policy about each group."""
        return [last for each in POLICIES[name] for last in self._last[each.title].values()]

    def _memory_of(self, name: str) -> PolicyMemory:
        return self._memory.content.memories[name]

    def _log_if_off(self, name: str) -> None:
        memory = self._memory_of(name)
        if groups := memory.groups_off(self._settings[name]):
            last = memory.worst
            _log.error(
                "policy switched off", policy=name, groups=groups, failed=last.failed, error=last.error
            )

    # The schedule

    async def run(self) -> None:
        """Consider policies when they are due, until cancelled."""
        await self._memory.load()
        for name in self._active():
            self._log_if_off(name)
        try:
            async with open_nursery() as nursery:
                nursery.start_soon(keep_running, "settings of policies", self._follow_settings)
                watching = partial(self._sync.as_master, self._watch)
                nursery.start_soon(keep_running, "events for policies", watching)
                nursery.start_soon(keep_running, "policies", self._consider_when_due)
        finally:
            with trio.move_on_after(_LAST_SECONDS, shield=True):
                await self._memory.save_changes()

    def _active(self) -> list[str]:
        return [name for name in POLICIES if self._settings[name].mode != "off"]

    def _schedule(self, name: str) -> None:
        period = self._settings[name].every_seconds
        self._due[name] = trio.current_time() + period if name in self._active() else inf

    async def _follow_settings(self) -> None:
        """Schedule each policy anew whose settings have changed."""
        before: Mapping[str, PolicySettings] = {}
        while True:
            changed, settings = self._configuration.changed, self._settings
            self._remember_names()
            for name in POLICIES:
                if settings[name] != before.get(name):
                    self._schedule(name)
            before = settings
            self._wake.set()
            await changed.wait()

    def _save_soon(self) -> None:
        self._memory.dirty = True
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
        if due:
            await self._consider(due)
        await self._memory.save_changes()

    async def _watch(self) -> None:
        """Note what has moved or come back, and consider active policies after events of the cluster."""
        before = self._sync.model
        without_n1: Set[str] = frozenset()
        self._expect_others()
        self._remember_names()
        while True:
            with suppress(HtoolsError):  # the next decision of a policy reports it
                await self._take_over()
            await trio.sleep(_WATCH_SECONDS)
            model = self._sync.model
            if model.cluster is before.cluster:
                continue
            without_n1 = await self._note_changes(before, model, without_n1)
            await self._memory.save_changes()
            before = model

    async def _note_changes(self, before: Model, model: Model, without_n1: Set[str]) -> Set[str]:
        """Note changes, and return the groups that fail N+1 now."""
        now, content, active = self.now(), self._memory.content, self._active()
        changes = await self._computations.run(
            lambda _pause: observe.changes(before.cluster, model.cluster, without_n1, bool(active))
        )
        if changes.moved or changes.returned:
            content.forget(now - max(settings.cool_down_seconds for settings in self._settings.values()))
            content.moved = content.moved | dict.fromkeys(changes.moved, now)
            content.switched = content.switched | dict.fromkeys(changes.returned, now)
            self._memory.dirty = True
        self._remember_names()
        for event in changes.events:
            for name in active:
                self.request(name, event)
        return changes.without_n1

    def _remember_names(self) -> None:
        """Remember which objects settings mean, so that they are found after a renaming."""
        cluster, content = self._sync.model.available, self._memory.content
        if cluster is None:
            return
        uuids = uuids_of(self._settings.values(), named_objects(cluster, content.uuids))
        if uuids != content.uuids:
            content.uuids, self._memory.dirty = uuids, True

    def _expect_others(self) -> None:
        """Count what others do from now on at the next chance: another daemon may act."""
        self._memory.complete = False
        if self._copies is not None:
            self._copies.hold()

    async def _take_over(self) -> None:
        """Count what the daemons before this one did, and adopt a plan that they left. Raises HtoolsError.

        Done once, and again after each time in which another daemon may have acted.
        """
        memory, sync = self._memory, self._sync
        async with self._succeeding:
            if (why := sync.obstacle()) is not None:
                self._expect_others()
                raise HtoolsError(why)
            if memory.complete or memory.unreadable is not None:
                return
            if not sync.master or sync.model.cluster is None:
                raise HtoolsError("the cluster is not known yet")
            if self._copies is not None:
                others = await self._copies.fetch()
                if content := others.pop(COPY, None):
                    memory.adopt(content)
                await self._plans.adopt_records(others)
            async with sync.client() as ganeti:
                jobs = await past_jobs(ganeti, self.now() - DAY)
            if memory.content.take_over(
                succession.expenses(jobs), succession.moved(jobs), succession.switched(jobs)
            ):
                memory.dirty = True
            known, since = {plan.id for plan in self._plans.all}, self._plans.last_change
            for plan in succession.unfinished_plans(jobs, known, since):
                await self._plans.adopt(plan)
            memory.complete = True

    # Decisions

    def _cluster(self) -> Cluster | None:
        """Return the cluster with its present load; None if it is not known yet."""
        cluster = self._sync.model.available
        return cluster and replace(cluster, present_load=self._present_load())

    async def _observe(self, computations: Computations) -> Observation:
        """Observe the cluster. Raises HtoolsError."""
        sync, model, cluster = self._sync, self._sync.model, self._cluster()
        if (why := sync.obstacle()) is not None:
            raise HtoolsError(why)
        if not sync.master or cluster is None:
            raise HtoolsError("the cluster is not known yet")
        async with sync.client() as ganeti:
            paused = await queries.watcher_pause(ganeti)
            jobs = await job_queries.unfinished(ganeti)
        outdated, now, settings, memories = sync.late, self.now(), self._settings, self._memory.content
        plans, claimed = tuple(self._plans.all), sorted(self._plans.claims_on_nodes())

        def observation(_pause: Pause) -> Observation:
            objects = named_objects(cluster, memories.uuids)
            return Observation(
                model,
                cluster,
                now,
                outdated,
                paused or 0.0,
                jobs,
                plans,
                claimed,
                {name: with_present_names(each, objects) for name, each in settings.items()},
                memories,
                observe.group_facts(cluster, now),
                observe.names_by_group(cluster),
            )

        return await computations.run(observation)

    async def _consider(self, due: Mapping[str, str]) -> None:
        """Consider policies, which come with their triggers: each remedy in each group, and act."""
        seen: Observation | Exception
        try:
            self._memory.content.clamp_times(self.now(), self._settings)
            if self._memory.unreadable is not None:
                raise HtoolsError(self._memory.unreadable)
            await self._take_over()
            seen = await self._observe(self._computations)
        except Exception as error:  # each remedy decides by it
            seen = error
        taken: dict[str, str] = {}
        for remedy in ORDER:
            if (trigger := due.get(remedy.policy)) is None:
                continue
            try:
                if isinstance(seen, Exception):
                    raise seen
                await self._consider_groups(remedy, trigger, seen, taken)
            except HtoolsError as error:
                self._decide(remedy, trigger, HELD, str(error))
            except Exception as error:  # other remedies go on
                note_defect(f"policy {remedy.policy}", error)
                self._decide(remedy, trigger, FAILED, f"{type(error).__name__}: {error}")

    async def _consider_groups(
        self, remedy: type[Remedy[Any]], trigger: str, seen: Observation, taken: dict[str, str]
    ) -> None:
        """Decide about each node group, and act. ``taken`` has the groups in which a remedy has acted in this
        round, or would have, and its title; more are added.

        Raises HtoolsError if the groups cannot be judged.
        """
        seen = replace(seen, plans=tuple(self._plans.all))
        found = await self._computations.run(partial(observe.situations, seen, remedy))
        situations = [with_next_round(each) for each in found]
        memory, last = self._memory_of(remedy.policy), self._last[remedy.title]
        memory.keep_failures({group.name for group in seen.cluster.groups})
        memory.rounds[remedy.title] = {each.group: each.rounds for each in situations}
        self._memory.dirty = True
        self._last[remedy.title] = {each.group: last[each.group] for each in situations if each.group in last}
        for each in situations:
            first = taken.get(each.group)
            situation = replace(
                each,
                conflict=f"{first} comes first" if first else None,
                idle_groups=[group for group in each.idle_groups if group not in taken],
            )
            try:
                groups = await self._act(trigger, seen, situation)
                taken |= dict.fromkeys(groups, remedy.title)
            except HtoolsError as error:
                self._decide(remedy, trigger, FAILED, str(error), situation)

    async def _act(self, trigger: str, seen: Observation, situation: Situation) -> Sequence[str]:
        """Decide about a group and do what the mode says; return the groups that are changed, or would be.

        Raises HtoolsError.
        """
        remedy, run = type(situation.remedy), self._computations.run
        bounds = observe.plan_bounds(seen, situation)
        planned = await run(partial(evaluate.plan_or_reason, seen, situation, bounds))
        if isinstance(planned, str):
            self._decide(remedy, trigger, HELD, planned, situation)
            return ()
        # Planning may have taken long, so the group is observed again.
        again = await self._observe(self._computations)
        held = await run(partial(evaluate.obstacle_now, again, situation))
        if held is not None:
            self._decide(remedy, trigger, HELD, held, situation)
            return ()
        groups, mode = planned.proposal.groups, again.settings[remedy.policy].mode
        if mode == "shadow":
            self._note_action(remedy, planned)
            self._decide(remedy, trigger, WOULD, planned.summary, situation, planned)
            return groups
        plan = new_plan(
            remedy.tool,
            planned.options,
            planned.proposal,
            seen.model.generations,
            seen.cluster,
            {"uid": os.getuid(), "pid": os.getpid()},
            policy=remedy.policy,
            remedy=remedy.title,
            bounds=bounds.to_json(),
        )
        if mode == "propose":
            await self._plans.add(plan)
            self._note_action(remedy, planned)
        else:
            await self._begin(remedy, plan, planned)
        outcome = PROPOSED if mode == "propose" else BEGUN
        self._decide(remedy, trigger, outcome, planned.summary, situation, planned, plan)
        return groups

    def _note_action(self, remedy: type[Remedy[Any]], planned: RemedyPlan) -> None:
        left = {move["from"][0] for move in planned.moves_to_json()}
        self._memory_of(remedy.policy).note_action(remedy.title, planned.proposal.groups, self.now(), left)
        self._memory.dirty = True

    async def _begin(self, remedy: type[Remedy[Any]], plan: Plan, planned: RemedyPlan) -> None:
        """Begin a plan once its expense is on disk. Raises HtoolsError; then the plan is gone."""
        memory = self._memory
        expense = Expense(self.now(), planned.moves, planned.mib, plan.id)
        entry = plan_entry(remedy.policy, expense.moves, expense.mib)
        plan.run.signature = replace(plan.run.signature, plan=entry)
        instances = [move["instance"] for move in planned.moves_to_json()]
        charge = memory.content.charge(remedy.policy, expense, instances, planned.nodes)
        self._note_action(remedy, planned)
        plan.over = lambda: stop_reason(self._settings[remedy.policy], datetime.fromtimestamp(self.now()))
        self._charges[plan.id] = charge
        try:
            await memory.save()
            await self._plans.add(plan)
            await self._plans.begin(plan, "stop", False)
        except (HtoolsError, RefusalError) as error:
            memory.content.refund(charge)
            del self._charges[plan.id]
            memory.dirty = True
            await self._plans.forget(plan)  # it is no proposal
            raise HtoolsError(f"the plan did not begin: {error}") from None

    def _decide(
        self,
        remedy: type[Remedy[Any]],
        trigger: str,
        outcome: str,
        reason: str,
        situation: Situation | None = None,
        planned: RemedyPlan | None = None,
        plan: Plan | None = None,
    ) -> None:
        """Log, publish and remember a decision."""
        group = situation.group if situation else ""
        decision = PolicyDecision(
            self.now(),
            remedy.policy,
            remedy.title,
            self._settings[remedy.policy].mode,
            trigger,
            group,
            outcome,
            reason,
            {
                "before": situation.facts.score if situation else None,
                "after": planned.after if planned else None,
            },
            plan.id if plan else None,
            tuple(planned.moves_to_json()) if planned else (),
            planned.nodes if planned else (),
            verdict.since_shadow(self._last[remedy.title].get(group), self._memory.content.moved),
        )
        self._last[remedy.title][group] = decision
        self._outcomes[remedy.policy][outcome] += 1
        logged = ("policy", "remedy", "group", "outcome", "reason", "trigger")
        _log.info("policy decided", **{key: getattr(decision, key) for key in logged})
        self._events.publish(decision)
