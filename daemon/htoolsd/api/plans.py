"""The methods about plans. A plan is made in a thread, with the code of the tools."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import trio

from ganeti_htools.cli import executing, hbal, hsqueeze
from ganeti_htools.client.following import LONGEST
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.commandline.parameters import parse_plan
from ganeti_htools.commandline.programs import HBAL, HSQUEEZE
from ganeti_htools.commandline.reading import CommandLine, Program
from ganeti_htools.execution.record import record
from ganeti_htools.execution.run import Run
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning.proposal import Proposal
from ganeti_htools.sources.source import unheard
from htoolsd.plans.plan import Plan, PlanState
from htoolsd.plans.plans import Plans
from htoolsd.socket.methods import Args, File, words
from htoolsd.socket.peer import caller
from htoolsd.sync.following import Sync

Propose = Callable[[Cluster, CommandLine, Callable[[], None]], Proposal]
_TOOLS: dict[str, tuple[Program, Propose]] = {
    "hbal": (HBAL, hbal.propose),
    "hsqueeze": (HSQUEEZE, hsqueeze.propose),
}


class PlanMethods:
    """Answers about plans. They are made one at a time, from the model as it was when the call came."""

    def __init__(self, plans: Plans, sync: Sync) -> None:
        self._plans = plans
        self._sync = sync
        self._turn = trio.CapacityLimiter(1)

    # All of these raise RefusalError.

    async def make(self, args: Args, _file: File) -> object:
        tool = args.get("tool")
        if not isinstance(tool, str) or tool not in _TOOLS:
            raise RefusalError(Refusal.ARGUMENTS, f"plan: tool: expected {' or '.join(_TOOLS)}")
        given = words("plan", args)
        model = self._sync.model_of(args.get("generations"))
        if model is None or model.cluster is None:
            raise RefusalError(Refusal.CLUSTER, "the cluster is not known, or has changed since; ask again")
        line, proposal, run = await self._proposed(tool, given, model.cluster)
        client = caller.get()
        facts = {
            "id": run.signature.run,
            "tool": tool,
            "arguments": given,
            "groups": list(proposal.groups),
            "made": time.time(),
            "by": {"uid": client.uid, "pid": client.pid},
            "generations": model.generations,
            "score": proposal.score,
            "cost": proposal.cost,
            "on_change": line.on_change,
            "wait_for_nodes": line.wait_for_nodes,
        }
        plan = Plan(facts, run, proposal.review)
        await self._plans.add(plan)
        return {**plan.document(), "found": proposal.found}

    async def _proposed(
        self, tool: str, given: Sequence[str], cluster: Cluster
    ) -> tuple[CommandLine, Proposal, Run]:
        """What a tool would do, and the run that does it."""
        program, propose = _TOOLS[tool]
        try:
            line = parse_plan(program, given)
            proposal = await trio.to_thread.run_sync(
                propose,
                cluster,
                line,
                trio.from_thread.check_cancelled,
                abandon_on_cancel=True,
                limiter=self._turn,
            )
        except HtoolsError as error:
            raise RefusalError(Refusal.ARGUMENTS, str(error)) from None
        return line, proposal, executing.begin(line, program, proposal.purpose, proposal.jobs)

    async def _make_again(self, plan: Plan) -> None:
        """Make a plan of an earlier daemon ready to be executed: what is on disk only tells of it, so it is
        made again, and has to be the same.
        """
        tool, model = plan.facts["tool"], self._sync.model
        if tool not in _TOOLS or model.cluster is None:
            raise RefusalError(Refusal.CLUSTER, "the cluster is not known yet; ask again")
        if model.silent:
            raise RefusalError(Refusal.CLUSTER, unheard(model.silent))
        _, proposal, run = await self._proposed(tool, plan.facts["arguments"], model.cluster)
        if plan.state is not PlanState.PLANNED or plan.review is not None:
            return  # another call was faster
        made, told = ((each.signature.purpose, record(each)["not_submitted"]) for each in (run, plan.run))
        if made != told or set(plan.facts["groups"]) != set(proposal.groups):
            changed = "was made by an earlier htoolsd, and of the cluster as it is now it would be another"
            raise RefusalError(Refusal.PLAN, f"plan {plan.id} {changed}; make a new one")
        run.signature = replace(run.signature, run=plan.id)
        plan.run, plan.review = run, proposal.review

    async def execute(self, args: Args, _file: File) -> object:
        plan = self._known("execute", args)
        on_change = args.get("on_change", plan.facts.get("on_change", "replan"))
        if on_change not in ("replan", "stop"):
            raise RefusalError(Refusal.ARGUMENTS, "execute: on_change: expected replan or stop")
        wait = args.get("wait_for_nodes", plan.facts.get("wait_for_nodes", False))
        if not isinstance(wait, bool):
            raise RefusalError(Refusal.ARGUMENTS, "execute: wait_for_nodes: expected true or false")
        if plan.state is PlanState.PLANNED and plan.review is None:
            await self._make_again(plan)
        await self._plans.begin(plan, str(on_change), wait)
        return plan.summary()

    async def summaries(self, _args: Args, _file: File) -> object:
        return [plan.summary() for plan in self._plans.all]

    async def follow(self, args: Args, _file: File) -> object:
        plan = self._known("follow", args)
        with trio.move_on_after(LONGEST):
            while plan.serial == args.get("serial") and not self._plans.stopping:
                await plan.news.wait()
        return plan.document()

    async def cancel(self, args: Args, _file: File) -> object:
        plan, now = self._known("cancel", args), args.get("now", False)
        if not isinstance(now, bool):
            raise RefusalError(Refusal.ARGUMENTS, "cancel: now: expected true or false")
        if not plan.state.going:
            raise RefusalError(Refusal.PLAN, f"plan {plan.id} is {plan.state}, not being carried out")
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
