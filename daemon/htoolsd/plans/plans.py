"""Plans: carried out by the daemon, reported while they run, and recorded on disk.

Invariant: everything that is submitted is on disk before. A plan is recorded when it is made, before each
jobset is submitted, and after each change. So after a crash the next daemon can report what was done and what
was not. It does not resume an interrupted plan, but follows the plan's jobs to their end. A plan is also
interrupted when its node stops being the master: the next master's daemon reports it, and may do its work.
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.execution.events import Changed, Event, News, OnEvent, Submitting
from ganeti_htools.execution.execute import execute
from ganeti_htools.execution.jobs import Job, Jobsets
from ganeti_htools.execution.queue import trace
from ganeti_htools.execution.review import Check, Say
from ganeti_htools.execution.run import Ending, Run
from ganeti_htools.execution.wording import event_reporter
from ganeti_htools.files import write_text
from ganeti_htools.judge.plan import TOOLS
from ganeti_htools.luxi.jobs import Patience
from ganeti_htools.luxi.past_jobs import plan_entry
from ganeti_htools.model.cluster import Cluster, Instance, silent_nodes
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.nursery import open_nursery
from ganeti_htools.planning.plan import OnChange
from ganeti_htools.planning.view import with_measured_load
from ganeti_htools.sources.source import describe_silent
from htoolsd.claims.plan_claims import PlanClaims
from htoolsd.config.settings import Settings
from htoolsd.events import DaemonEvent, EventStream
from htoolsd.follow.desired_state import SyncedState
from htoolsd.helper.helper import run_helper
from htoolsd.plans.plan import (
    Caller,
    Plan,
    PlanCertificate,
    PlanChanged,
    PlanState,
    plan_from_json,
    read_plans,
)
from htoolsd.plans.plan_turn import PlanTurn
from htoolsd.store.state_copies import StateCopies
from htoolsd.sync.polls import RoleChanged
from htoolsd.sync.sync import Sync
from htoolsd.tasks import keep_running, note_defect
from htoolsd.threads import effect

_log = structlog.get_logger()

MAX_PLANS = 100  # ended plans that are kept, and as many plans that nobody executed
_FOR_EVER = Patience(away=math.inf)
_SHIELDED_SECONDS = 15.0  # for the record of a plan that begins or has ended, and its claims then
_FORGET_EVERY = 600.0  # seconds
_RECORD_EVERY = 5.0  # seconds until a record that could not be written is tried again
_JUDGING_SECONDS = 60.0
_FINDINGS = 3  # findings of the judge that are named
_RELEASE_EVERY = 5.0  # seconds between two looks for claims of plans without jobs


class NotRecordedError(HtoolsError):
    """A plan could not be written to disk."""


class Plans:
    """All plans, recorded in ``directory``.

    ``events`` get each plan that was made or has ended. With ``claims``, plans claim what their jobs need,
    and respect the claims of others. ``copies`` are those of the records.

    ``turn`` is the turn to make a plan. ``last_change`` is when an earlier daemon last wrote or removed a
    record here, in seconds of the epoch; 0 if none ever did.
    """

    def __init__(
        self,
        directory: str,
        sync: Sync,
        events: EventStream,
        settings: Settings,
        claims: PlanClaims | None = None,
        copies: StateCopies | None = None,
    ) -> None:
        self._directory = directory
        self._sync = sync
        self._events = events
        self._settings = settings
        self._claims = claims
        self._copies = copies
        self._plans: dict[str, Plan] = {}
        self.turn = PlanTurn()
        self._unrecorded = set[Plan]()
        self.last_change = 0.0
        self._stopping = trio.Event()
        self._executions: trio.Nursery
        self._traces: trio.Nursery

    @property
    def all(self) -> Iterable[Plan]:
        """All plans, the oldest first."""
        return self._plans.values()

    @property
    def stopping(self) -> bool:
        """Whether the plans are stopping with the daemon."""
        return self._stopping.is_set()

    def note(self, event: DaemonEvent) -> None:
        """Interrupt each plan when another node has become the master.

        Jobs under way are followed to their end.
        """
        if isinstance(event, RoleChanged) and event.master is False:
            for plan in self._plans.values():
                if plan.state.going:
                    plan.interruption = "this node is no longer the master"
                    plan.scope.cancel()

    def _publish(self, plan: Plan) -> None:
        self._events.publish(PlanChanged(machine.now(), plan.to_json(), plan))

    async def add(self, plan: Plan) -> None:
        """Add a new plan and record it."""
        self._plans[plan.id] = plan
        self._publish(plan)
        await self._try_to_record(plan)
        await self._forget_old()
        _log.info("plan made", plan=plan.id, tool=plan.facts["tool"], jobs=sum(map(len, plan.run.rest)))

    async def adopt(self, plan: Plan) -> None:
        """Add a plan of another daemon, and follow its jobs to their end. One under way was interrupted."""
        if plan.state.going:
            plan.end(machine.now())
        known, self._plans[plan.id] = self._plans.get(plan.id), plan
        if plan.state is PlanState.INTERRUPTED and (known is None or known.ended is None):
            self._publish(plan)
            _log.warning("plan of another daemon was interrupted", plan=plan.id)
        await self._try_to_record(plan)
        if plan.run.current:
            self._traces.start_soon(keep_running, "jobs of plans", partial(self._trace, plan))

    async def adopt_records(self, records: Mapping[str, str | None]) -> None:
        """Add the plans in another daemon's records; without content, remove the plan."""
        for name, content in records.items():
            known = self._plans.get(name)
            if known is not None and known.state.going:
                continue
            if content is not None:
                try:
                    await self.adopt(plan_from_json(content.encode()))
                except HtoolsError as error:
                    _log.error("plan cannot be read", path=name, error=str(error))
            elif known is not None:
                await self._remove([known])
        self._plans = dict(sorted(self._plans.items(), key=lambda item: item[1].facts["made"]))

    def status(self) -> dict[str, Any]:
        """Return the number of plans by state. Plans that a tool has only shown do not count."""
        plans = self._plans.values()
        states = [plan.state for plan in plans if plan.proposed or plan.state is not PlanState.PLANNED]
        return {state.value: states.count(state) for state in PlanState if state in states}

    def jobs(self) -> dict[str, int]:
        """Return the number of jobs by state; waiting are those of plans that are being carried out."""
        counts = [(plan.state.going, plan.summary()["jobs"]) for plan in self._plans.values()]
        return {
            "succeeded": sum(jobs["succeeded"] for _, jobs in counts),
            "failed": sum(jobs["failed"] for _, jobs in counts),
            "running": sum(jobs["going"] for _, jobs in counts),
            "waiting": sum(jobs["left"] for going, jobs in counts if going),
        }

    def stop(self) -> None:
        """Stop each plan after its jobs under way, and begin no other."""
        self._stopping.set()
        for plan in self._plans.values():
            if plan.state.going:
                plan.cancel()
            plan.changed()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry out plans until they are stopped and have ended. Started once the recorded plans are read."""
        await self._read_recorded()
        async with open_nursery() as self._executions, open_nursery() as self._traces:
            for plan in self._plans.values():
                if plan.run.current:
                    self._traces.start_soon(keep_running, "jobs of plans", partial(self._trace, plan))
            self._traces.start_soon(keep_running, "old plans", self._expire)
            self._traces.start_soon(keep_running, "late records", self._record_late)
            releasing = partial(self._sync.as_master, self._release_claims)
            self._traces.start_soon(keep_running, "claims of plans", releasing)
            task_status.started()
            try:
                await self._stopping.wait()
            finally:
                self._traces.cancel_scope.cancel()
        for plan in tuple(self._unrecorded):
            await self._try_to_record(plan)

    async def _read_recorded(self) -> None:
        """Read the plans of earlier daemons."""
        with suppress(FileNotFoundError):
            self.last_change = os.stat(self._directory).st_mtime
        try:
            found = await effect(lambda: list(read_plans(self._directory)))
        except OSError as error:
            _log.error("plans cannot be read", path=error.filename, error=error.strerror)
            return
        for path, plan in found:
            if not isinstance(plan, Plan):
                _log.error("plan cannot be read", path=path, error=str(plan))
                continue
            self._plans[plan.id] = plan
            if plan.state.going:
                plan.end(machine.now())
                self._publish(plan)
                _log.warning("plan was interrupted", plan=plan.id)
                await self._try_to_record(plan)
        self._plans = dict(sorted(self._plans.items(), key=lambda item: item[1].facts["made"]))

    # Execution

    async def begin(
        self,
        plan: Plan,
        on_change: OnChange,
        wait_for_nodes: bool,
        by: Caller | None = None,
        parallel: int | None = None,
    ) -> None:
        """Begin to carry out a plan, for a caller or the daemon itself. Raises RefusalError.

        ``parallel`` replaces the plan's own limit of unfinished jobs. The plan is judged first, if the
        settings say so.
        """
        self._review_of(plan, wait_for_nodes)
        await self._certify(plan)
        review = self._review_of(plan, wait_for_nodes)
        if not plan.run.signature.plan:
            plan.run.signature = replace(
                plan.run.signature, plan=plan_entry(continues=plan.facts.get("continues") or "")
            )
        if parallel is not None:
            plan.run.parallel = parallel
            plan.facts["options"] = {**plan.facts["options"], "parallel": parallel}  # resuming keeps to it
        plan.begin(machine.now(), by)
        why: str | None = f"no answer from the disk within {_SHIELDED_SECONDS:g} s"
        with trio.move_on_after(_SHIELDED_SECONDS, shield=True):
            try:
                await self._record(plan)
                why = None
            except NotRecordedError as error:
                why = str(error)
        if why is not None or self._stopping.is_set():
            plan.take_back_begin()
            self._unrecorded.add(plan)  # the record may say, now or later, that the plan has begun
            if why is None:
                raise RefusalError(Refusal.STOPPING, "htoolsd is stopping")
            raise RefusalError(Refusal.PLAN, f"the plan is not executed because it cannot be recorded: {why}")
        check = review(on_change, plan.say)
        self._executions.start_soon(self._carry_out, plan, check, wait_for_nodes)

    def _review_of(self, plan: Plan, wait_for_nodes: bool) -> Callable[[OnChange, Say], Check]:
        """Return the review of a plan that may begin now. Raises RefusalError."""
        if self._stopping.is_set():
            raise RefusalError(Refusal.STOPPING, "htoolsd is stopping")
        if (why := self._sync.obstacle()) is not None:
            raise RefusalError(Refusal.CLUSTER, why)
        if plan.state is not PlanState.PLANNED or plan.review is None:
            raise RefusalError(Refusal.PLAN, f"plan {plan.id} is already {plan.state}")
        if plan.has_expired(machine.now()):
            raise RefusalError(Refusal.PLAN, f"plan {plan.id} has expired; make a new one")
        if not wait_for_nodes and (why := self.silence(plan)) is not None:
            raise RefusalError(Refusal.CLUSTER, why)
        for other in self._plans.values():
            common = set(plan.facts["groups"]) & set(other.facts["groups"])
            where = f"node group {', '.join(sorted(common))}"
            if other.state.going and common:
                raise RefusalError(Refusal.BUSY, f"plan {other.id} is running in {where}")
            if other.run.current and common and plan.run.switches:
                why = f"jobs of interrupted plan {other.id} are still running in {where}"
                raise RefusalError(Refusal.BUSY, why)
        return plan.review

    async def _certify(self, plan: Plan, rest: Jobsets | None = None) -> None:
        """Have a plan judged, or a ``rest`` planned anew. Raises RefusalError if it does not hold."""
        mode, cluster = self._settings.now.plans.certificates, plan.cluster
        if mode == "off" or cluster is None or plan.facts["tool"] not in TOOLS:
            return
        output, limit, error = await run_helper(
            "htoolsd.helper.certificate",
            _JUDGING_SECONDS,
            _JUDGING_SECONDS,
            with_measured_load(cluster, "none"),
            plan.statement(rest),
        )
        what = "plan" if rest is None else "new plan"
        if limit is not None or error is not None:
            why = error or f"it was not judged within {limit}"
            plan.certificate = PlanCertificate(verdict="unchecked", reasons=[why])
            plan.warn(f"The {what} is unchecked: {why}")
            _log.warning("plan is unchecked", plan=plan.id, error=why)
            return
        reasons = json.loads(output)
        plan.certificate = PlanCertificate(verdict="broken" if reasons else "holds", reasons=reasons)
        if reasons:
            _log.warning("plan does not hold", plan=plan.id, findings=reasons[:_FINDINGS])
            why = "; ".join(reasons[:_FINDINGS])
            if mode == "refuse":
                await self._try_to_record(plan)
                raise RefusalError(Refusal.PLAN, f"{what} {plan.id} does not hold: {why}")
            plan.warn(f"The {what} does not hold: {why}")

    async def _carry_out(self, plan: Plan, check: Check, wait_for_nodes: bool) -> None:
        run, seen = plan.run, None

        async def read() -> Cluster:
            nonlocal seen
            plan.cluster, seen = await self._read(plan, wait_for_nodes or run.sets > 0)
            return plan.cluster

        async def claim(jobs: Sequence[Job]) -> str | None:
            room = made_room(run)
            if room is not None and self._claims is not None:
                self._claims.keep_room(room)  # before the plan's own claim ends
            return await self._claim(plan, jobs, seen)

        _log.info("plan begun", plan=plan.id)
        try:
            with plan.scope:
                async with self._sync.client() as ganeti:
                    tell = self._teller(plan)
                    await execute(
                        run, ganeti, read, check, tell, plan.stop, machine.now_ns, claim=claim, over=plan.over
                    )
        except NotRecordedError as error:
            run.take_back([task for task in run.current if task.number is None])
            run.ending, run.reason = Ending.LOST, f"the plan could not be recorded: {error}"
        except HtoolsError as error:
            run.ending, run.reason = Ending.LOST, str(error)
        except Exception as error:  # a defect must not end the daemon
            _log.exception("plan failed", plan=plan.id)
            run.ending, run.reason = Ending.LOST, f"{type(error).__name__}: {error}"
        finally:
            plan.end(machine.now())
            self._publish(plan)
            with trio.move_on_after(_SHIELDED_SECONDS, shield=True):
                await self._try_to_record(plan)
                await self._forget_old()
                if not run.current:
                    await self._claim(plan, ())
            self._sync.request_live_data()
            _log.info("plan ended", plan=plan.id, state=plan.state, error=plan.error)
        if run.current and not self._traces.cancel_scope.cancel_called:
            self._traces.start_soon(keep_running, "jobs of plans", partial(self._trace, plan))

    async def _trace(self, plan: Plan) -> None:
        """Follow the jobs of an interrupted plan to their end."""
        try:
            async with self._sync.client() as ganeti:
                await trace(plan.run, ganeti, self._teller(plan), _FOR_EVER)
        except Exception as defect:
            note_defect("jobs of plans", defect)
        else:
            await self._claim(plan, ())
        plan.stand("")
        await self._try_to_record(plan)

    async def read_newest(self) -> None:
        """Have the model count the newest claims."""
        if self._claims is not None:
            await self._claims.read_newest()

    def silence(self, plan: Plan) -> str | None:
        """Return that nodes of the plan's groups do not report; None if they do."""
        cluster = self._sync.model.cluster
        silent = silent_nodes(cluster, plan.facts["groups"]) if cluster else ()
        return describe_silent(silent) if silent else None

    async def _read(self, plan: Plan, wait_for_nodes: bool) -> tuple[Cluster, SyncedState | None]:
        """Return the cluster as it is now, and the state of the ledger.

        Raises NotSyncedError. Raises HtoolsError for nodes of the plan's groups that do not report: DataError
        with ``wait_for_nodes``, then the caller tries again.
        """
        await self._sync.poll_all()
        if (why := self.silence(plan)) is not None:
            raise (DataError if wait_for_nodes else HtoolsError)(why)
        cluster, synced = self._sync.model.available, None
        if self._claims is not None:
            found, synced = await self._claims.available_cluster()
            cluster = found or cluster
        if cluster is None:
            raise DataError("the cluster is not known yet")
        return cluster, synced

    async def _claim(self, plan: Plan, jobs: Sequence[Job], seen: SyncedState | None = None) -> str | None:
        """Claim what jobs need on a state (no jobs: release); return why they need another review, if any."""
        if self._claims is None:
            return None
        if jobs:
            return await self._claims.claim(plan.id, jobs, seen)
        await self._claims.release(plan.id)
        return None

    async def _release_claims(self) -> None:
        """Release claims of plans without jobs: those of earlier daemons, and those whose release failed."""
        while self._claims is not None:
            plans = self._plans.values()
            await self._claims.release_others(
                {plan.id for plan in plans if plan.state.going or plan.run.current}
            )
            await trio.sleep(_RELEASE_EVERY)

    def claims_on_nodes(self) -> dict[str, set[str]]:
        """Return the names of the claims on each node that has any."""
        return self._claims.claims_on_nodes() if self._claims is not None else {}

    def _teller(self, plan: Plan) -> OnEvent:
        said = event_reporter(plan.run, plan.say, plan.warn, plan.stand)

        async def report(event: Event) -> None:
            await said(event)
            if isinstance(event, Changed) and event.plan is not None:
                await self._certify(plan, event.plan)
            if isinstance(event, Submitting):
                await self._record(plan)
            elif not isinstance(event, News) or event.said is None:
                await self._try_to_record(plan)
            plan.changed()

        return report

    # Recording

    async def _record(self, plan: Plan) -> None:
        """Record a plan, unless it was removed or replaced. Raises NotRecordedError."""
        async with plan.recording:  # so that an older text never replaces a newer one
            if self._plans.get(plan.id) is not plan:
                return
            try:
                text = plan.text()
                await plan.file.do(write_text, self._path(plan), text)
            except HtoolsError as error:
                raise NotRecordedError(str(error)) from None
            if self._copies is not None:
                self._copies.put(plan.id, text)

    async def _try_to_record(self, plan: Plan) -> None:
        """Record what has already happened. A failure is logged; the plan is recorded later."""
        try:
            await self._record(plan)
            self._unrecorded.discard(plan)
        except NotRecordedError as error:
            if plan not in self._unrecorded:
                _log.error("plan cannot be recorded", plan=plan.id, error=str(error))
            self._unrecorded.add(plan)

    async def _record_late(self) -> None:
        """Record the plans that could not be recorded, once the disk accepts them."""
        while True:
            await trio.sleep(_RECORD_EVERY)
            for plan in tuple(self._unrecorded):
                await self._try_to_record(plan)

    async def note_seen(self, plan: Plan) -> None:
        """Remember that somebody has looked at the end of a plan."""
        if plan.ended is not None and not plan.seen:
            plan.seen = True
            await self._try_to_record(plan)

    async def forget(self, plan: Plan) -> None:
        """Remove a plan. Raises RefusalError if it or its jobs are being carried out."""
        if plan.state.going or plan.run.current:
            doing = "is being carried out" if plan.state.going else "has jobs that are still running"
            raise RefusalError(Refusal.PLAN, f"plan {plan.id} {doing}")
        await self._remove([plan])

    async def _expire(self) -> None:
        """Remove plans that have expired, now and then."""
        while True:
            await self._forget_old()
            await trio.sleep(_FORGET_EVERY)

    async def _forget_old(self) -> None:
        """Remove all but the newest ended plans, and plans that nobody executed: expired ones, too many."""
        planned = [plan for plan in self._plans.values() if plan.state is PlanState.PLANNED]
        ended = [plan for plan in self._plans.values() if plan not in planned and not plan.state.going]
        now = machine.now()
        expired = [plan for plan in planned[-MAX_PLANS:] if plan.has_expired(now)]
        await self._remove([*planned[:-MAX_PLANS], *expired, *ended[:-MAX_PLANS]])

    async def _remove(self, old: Sequence[Plan]) -> None:
        for plan in old:  # at once, so that none of them begins meanwhile
            self._plans.pop(plan.id, None)
        for plan in old:
            async with plan.recording:  # so that a record that is just written goes as well
                await plan.file.do(_unlink, self._path(plan))
                if self._copies is not None:
                    self._copies.put(plan.id, None)

    def _path(self, plan: Plan) -> str:
        return os.path.join(self._directory, f"{plan.id}.json")


def made_room(run: Run) -> Instance | None:
    """Return the new instance for which a run has made room; None for other runs, and before their end."""
    if run.rest or not run.tasks or any(task.failed for task in run.tasks):
        return None
    return run.tasks[-1].job.room


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
