"""The methods about plans. A plan is made in a thread, with the code of the tools."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast, get_args

import orjson
import trio

from ganeti_htools.client.plan_changes import LONGEST
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.execution.record import record
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.planning.options import from_json
from ganeti_htools.planning.plan import OnChange, Proposal, new_run
from ganeti_htools.planning.tools import TOOLS
from ganeti_htools.sources.source import unheard
from htoolsd.plans.plan import Plan, PlanState, new_plan
from htoolsd.plans.plans import Plans
from htoolsd.socket.methods import LONGEST as MOST_TEXT
from htoolsd.socket.methods import Args, File
from htoolsd.socket.peer import caller
from htoolsd.sync.sync import Sync

Again = Callable[[Mapping[str, Any]], Awaitable[Proposal]]

_ON_CHANGE = get_args(OnChange)


class PlanMethods:
    """Answers about plans. They are made one at a time, from the model as it was when the call came.

    ``again`` makes a plan of a policy once more, from its facts; it may raise HtoolsError.
    """

    def __init__(self, plans: Plans, sync: Sync, again: Again) -> None:
        self._plans = plans
        self._sync = sync
        self._again = again
        self._turn = trio.CapacityLimiter(1)

    # All of these raise RefusalError.

    async def make(self, args: Args, _file: File) -> object:
        tool, given = args.get("tool"), args.get("options", {})
        if not isinstance(tool, str) or tool not in TOOLS:
            raise RefusalError(Refusal.ARGUMENTS, f"plan: tool: expected {' or '.join(TOOLS)}")
        if not isinstance(given, dict):
            raise RefusalError(Refusal.ARGUMENTS, "plan: options: expected an object")
        options = _options(tool, given)
        model = self._sync.recent_model(args.get("generations"))
        if model is None or model.cluster is None:
            raise RefusalError(Refusal.CLUSTER, "the cluster is not known, or has changed since; ask again")
        # Claimed nodes stay up, for a claim may be used at any moment.
        claimed = self._plans.claimed() & {node.name for node in model.cluster.nodes}
        options = options.sparing(sorted(claimed))
        proposal = await self._proposed(tool, options, model.cluster)
        client = caller.get()
        by = {"uid": client.uid, "pid": client.pid}
        plan = new_plan(tool, options, proposal, model.generations, by)
        await self._plans.add(plan)
        return {**plan.to_json(), "found": proposal.found}

    async def _proposed(self, tool: str, options: Any, cluster: Cluster) -> Proposal:
        """What a tool would do."""
        try:
            return await trio.to_thread.run_sync(
                TOOLS[tool].propose,
                cluster,
                options,
                lambda _text: trio.from_thread.check_cancelled(),
                abandon_on_cancel=True,
                limiter=self._turn,
            )
        except HtoolsError as error:
            raise RefusalError(Refusal.ARGUMENTS, str(error)) from None

    async def _make_again(self, plan: Plan) -> None:
        """Make a plan of an earlier daemon ready to be executed.

        Nothing that is submitted comes from the disk, so the plan is made again, and has to be the same.
        """
        tool, model = plan.facts["tool"], self._sync.model
        if plan.facts["options"] is None:
            why = "was made by an earlier htoolsd, which kept its options as a command line"
            raise RefusalError(Refusal.PLAN, f"plan {plan.id} {why}; make a new one")
        if tool not in TOOLS or model.cluster is None:
            raise RefusalError(Refusal.CLUSTER, "the cluster is not known yet; ask again")
        if model.silent:
            raise RefusalError(Refusal.CLUSTER, unheard(model.silent))
        options = _options(tool, plan.facts["options"])
        changed = f"plan {plan.id} was made by an earlier htoolsd, and of the cluster as it is now"
        if "policy" in plan.facts:
            try:
                proposal = await self._again(plan.facts)
            except HtoolsError as error:
                raise RefusalError(Refusal.PLAN, f"{changed} there would be none: {error}") from None
        else:
            proposal = await self._proposed(tool, options, model.cluster)
        if plan.state is not PlanState.PLANNED or plan.review is not None:
            return  # another call was faster
        run = new_run(tool, proposal.purpose, proposal.jobs, options.execution)
        again, told = ((each.signature.purpose, record(each)["not_submitted"]) for each in (run, plan.run))
        if again != told or set(plan.facts["groups"]) != set(proposal.groups):
            raise RefusalError(Refusal.PLAN, f"{changed} it would be another; make a new one")
        run.signature = replace(run.signature, run=plan.id)
        plan.run, plan.review = run, proposal.review

    async def execute(self, args: Args, _file: File) -> object:
        plan = self._known("execute", args)
        on_change = args.get("on_change", plan.facts.get("on_change", "replan"))
        if on_change not in _ON_CHANGE:
            raise RefusalError(Refusal.ARGUMENTS, f"execute: on_change: expected {' or '.join(_ON_CHANGE)}")
        wait = args.get("wait_for_nodes", plan.facts.get("wait_for_nodes", False))
        if not isinstance(wait, bool):
            raise RefusalError(Refusal.ARGUMENTS, "execute: wait_for_nodes: expected true or false")
        if plan.state is PlanState.PLANNED and plan.review is None:
            await self._make_again(plan)
        await self._plans.begin(plan, cast(OnChange, on_change), wait)
        return plan.summary()

    async def summaries(self, _args: Args, _file: File) -> object:
        return [plan.summary() for plan in self._plans.all]

    async def follow(self, args: Args, _file: File) -> object:
        plan = self._known("follow", args)
        with trio.move_on_after(LONGEST):
            while plan.serial == args.get("serial") and not self._plans.stopping:
                await plan.news.wait()
        return plan.to_json()

    async def cancel(self, args: Args, _file: File) -> object:
        plan, now = self._known("cancel", args), args.get("now", False)
        if not isinstance(now, bool):
            raise RefusalError(Refusal.ARGUMENTS, "cancel: now: expected true or false")
        if not plan.state.going:
            raise RefusalError(Refusal.PLAN, f"plan {plan.id} is {plan.state}, not running")
        plan.cancel()
        if now:
            plan.scope.cancel()
        return plan.summary()

    def _known(self, method: str, args: Args) -> Plan:
        match args:
            case {"plan": str(name)} if name:
                found = [plan for plan in self._plans.all if plan.id.startswith(name)]
            case _:
                raise RefusalError(Refusal.ARGUMENTS, f"{method}: plan: expected the id of a plan")
        if len(found) != 1:
            problem = "begins several ids" if found else "is the id of no plan that is known"
            raise RefusalError(Refusal.PLAN, f"{name[:80]!r} {problem}; plans lists them")
        return found[0]


def _options(tool: str, given: Mapping[str, Any]) -> Any:
    """The typed options of a tool. Raises RefusalError."""
    if len(orjson.dumps(given)) > MOST_TEXT:
        raise RefusalError(Refusal.ARGUMENTS, f"plan: options: longer than {MOST_TEXT} characters")
    try:
        return from_json(TOOLS[tool].options, given)
    except DataError as error:
        raise RefusalError(Refusal.ARGUMENTS, f"plan: options: {error}") from None
