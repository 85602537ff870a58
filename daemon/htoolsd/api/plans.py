"""The methods about plans. Plans are made in a thread, with the code of the tools."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, cast, get_args

import orjson
import trio

from ganeti_htools import machine
from ganeti_htools.client.plan_changes import LONGEST
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.execution.record import Count, record
from ganeti_htools.execution.wording import unfinished_nodes
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import DataError, HtoolsError, RequestFailed
from ganeti_htools.planning.options import from_json, names
from ganeti_htools.planning.plan import OnChange, Proposal, new_run
from ganeti_htools.planning.tools import TOOLS
from ganeti_htools.records import Valid, choice
from ganeti_htools.sources.source import describe_updating
from htoolsd.api.ledger_arguments import Number
from htoolsd.config.settings import Settings
from htoolsd.plans.copy_speeds import copy_speeds
from htoolsd.plans.plan import Plan, PlanState, new_plan
from htoolsd.plans.plans import Plans
from htoolsd.policies.coordinator import Policies
from htoolsd.policies.remedies import POLICIES
from htoolsd.socket.methods import OPTION_CHARACTERS, method
from htoolsd.socket.peer import describe_caller
from htoolsd.socket.roles import Role
from htoolsd.socket.server import Server
from htoolsd.sync.sync import Sync

_TOOLS = " or ".join(TOOLS)
_OPTIONS = "; ".join(f"for {name} {', '.join(names(tool.options))}" for name, tool in TOOLS.items())
_ENDING = 1.0  # seconds that a cancellation waits for the end of a plan that is stopped at once
_NO_OPTIONS: dict[str, Any] = {}

_PlanId = Annotated[str, Valid("the id of a plan", bool), "id of a plan, or its beginning"]
_OnChange = Annotated[str, choice(get_args(OnChange))]


class PlanMethods:
    """Methods about plans; they raise RefusalError. One plan is made at a time."""

    def __init__(
        self, plans: Plans, sync: Sync, settings: Settings, policies: Policies, server: Server
    ) -> None:
        self._plans = plans
        self._settings = settings
        self._sync = sync
        self._policies = policies
        self._server = server

    @method(
        f"Makes a plan as {_TOOLS} does, for the method execute. The result is the plan; found in it is what"
        " the tool needs to make the plan again.",
        version=2,
        role=Role.DECIDE,
    )
    async def plan(
        self,
        tool: Annotated[str, choice(TOOLS)],
        options: Annotated[
            dict[str, Any], f"object of options, each of them optional: {_OPTIONS}"
        ] = _NO_OPTIONS,
        generations: Annotated[dict[str, Any] | None, "from the method cluster; otherwise the newest"] = None,
    ) -> object:
        typed = _options(tool, options)
        if generations is None:
            await self._read_newest()
        model = self._sync.recent_model(generations)
        if model is None or model.available is None:
            raise RefusalError(
                Refusal.CLUSTER, "the cluster is not known yet, or has changed since; ask again"
            )
        return await self._made(tool, typed, model.generations, model.available)

    async def _read_newest(self) -> None:
        """Have the model count the newest claims, and figures as new as their instances.

        Raises RefusalError.
        """
        await self._plans.read_newest()
        if (why := await self._sync.poll_updates()) is not None:
            raise RefusalError(Refusal.CLUSTER, describe_updating(self._sync.model.updating, why))

    async def _made(
        self, tool: str, options: Any, generations: Mapping[str, int], cluster: Cluster, **facts: str
    ) -> dict[str, Any]:
        """Make a plan for a cluster; ``facts`` are more facts about it."""
        # Claimed nodes stay up, for a claim may be used at any moment.
        claims, nodes = self._plans.claims_on_nodes(), (node.name for node in cluster.nodes)
        options = options.sparing({node: claims[node] for node in nodes if node in claims})
        speeds = copy_speeds((plan.run for plan in self._plans.all), cluster)
        options = options.at_speeds(speeds)
        proposal = await self._proposed(tool, options, cluster)
        by = describe_caller()
        assert by is not None
        plan = new_plan(tool, options, proposal, generations, cluster, by, **facts)
        await self._plans.add(plan)
        return {**plan.to_json(), "found": proposal.found, "measured": speeds}

    async def _proposed(self, tool: str, options: Any, cluster: Cluster) -> Proposal:
        turn, by = self._plans.turn, describe_caller()
        longest = self._settings.now.plans.longest_search_seconds
        wanted = options.search_seconds(len(cluster.groups))
        if wanted > longest:
            limit = f"at most {longest:g} s ([plans] longest_search_seconds)"
            raise RefusalError(Refusal.ARGUMENTS, f"{tool}: a search of {wanted:g} s; expected {limit}")
        assert by is not None
        try:
            async with turn.taken(tool, by, self._server.caller_may(Role.ACT)) as thread:
                return await machine.run_sync(
                    TOOLS[tool].propose,
                    cluster,
                    options,
                    lambda _text: machine.check_cancelled(),
                    abandon_on_cancel=True,
                    limiter=thread,
                )
        except RequestFailed as error:
            raise RefusalError(Refusal.PLAN, str(error)) from None
        except HtoolsError as error:
            raise RefusalError(Refusal.ARGUMENTS, str(error)) from None

    async def _make_executable(self, plan: Plan) -> None:
        """Make a plan of an earlier daemon again, and refuse it if the result is different.

        So nothing that is submitted comes from the disk.
        """
        if plan.facts["options"] is None:
            why = "was made by an earlier htoolsd in a form that this one does not know"
            raise RefusalError(Refusal.PLAN, f"plan {plan.id} {why}; make a new one")
        await self._read_newest()
        tool, model = plan.facts["tool"], self._sync.model
        if tool not in TOOLS or model.available is None:
            raise RefusalError(Refusal.CLUSTER, "the cluster is not known yet; ask again")
        if (silence := self._plans.silence(plan)) is not None:
            raise RefusalError(Refusal.CLUSTER, silence)
        options = _options(tool, plan.facts["options"])
        earlier = f"plan {plan.id} was made by an earlier htoolsd and"
        if "policy" in plan.facts:
            try:
                proposal = await self._policies.remake_proposal(plan.facts)
            except HtoolsError as error:
                why = f"{earlier} cannot be made again for the present cluster: {error}"
                raise RefusalError(Refusal.PLAN, why) from None
        else:
            proposal = await self._proposed(tool, options, model.available)
        if plan.state is not PlanState.PLANNED or plan.review is not None:
            return  # another call has done it
        run = new_run(tool, proposal.purpose, proposal.jobs, options.execution)
        new, old = ((each.signature.purpose, record(each)["not_submitted"]) for each in (run, plan.run))
        if new != old or set(plan.facts["groups"]) != set(proposal.groups):
            raise RefusalError(
                Refusal.PLAN, f"{earlier} would be different for the present cluster; make a new one"
            )
        run.signature = replace(run.signature, run=plan.id)
        plan.run, plan.review, plan.cluster = run, proposal.review, model.available

    @method("Begins to carry out a plan, and does not wait for its end.", role=Role.ACT, recorded=True)
    async def execute(
        self,
        plan: _PlanId,
        on_change: Annotated[_OnChange | None, "replan or stop, when the cluster has changed"] = None,
        wait_for_nodes: Annotated[bool | None, "true to wait for nodes in use that do not report"] = None,
        parallel: Annotated[Count | None, "the largest number of unfinished jobs, 0 for no limit"] = None,
    ) -> object:
        found = self._plan_of(plan)
        if on_change is None:
            on_change = found.facts.get("on_change", "replan")
        if wait_for_nodes is None:
            wait_for_nodes = found.facts.get("wait_for_nodes", False)
        if found.state is PlanState.PLANNED and found.review is None:
            await self._make_executable(found)
        by = describe_caller()
        await self._plans.begin(found, cast(OnChange, on_change), wait_for_nodes, by, parallel)
        return found.summary()

    @method(
        "Makes a plan anew with the options of an interrupted plan, for the method execute.",
        role=Role.ACT,
        recorded=True,
    )
    async def resume(self, plan: _PlanId) -> object:
        earlier = self._plan_of(plan)
        why, tool = earlier.obstacle_to_resuming(), earlier.facts["tool"]
        for other in self._plans.all:
            if other.facts.get("continues") == earlier.id and other.state is not PlanState.PLANNED:
                why = why or f"was continued by plan {other.id}"
        if why is not None:
            raise RefusalError(Refusal.PLAN, f"plan {earlier.id} {why}")
        if tool not in TOOLS:
            raise RefusalError(Refusal.PLAN, f"plan {earlier.id} is of {tool}, which is not known here")
        options = _options(tool, earlier.facts["options"])
        await self._read_newest()
        model = self._sync.model
        if model.available is None:
            raise RefusalError(Refusal.CLUSTER, "the cluster is not known yet; ask again")
        made = await self._made(tool, options, model.generations, model.available, continues=earlier.id)
        await self._plans.note_seen(earlier)
        return made

    @method("Lists the plans, the oldest first, with the number of jobs that are done.", role=Role.READ)
    async def plans(self) -> object:
        return [plan.summary() for plan in self._plans.all]

    @method(
        f"Returns a plan when it has changed, at the latest after {LONGEST:g} s, and at once while too many"
        " calls wait.",
        role=Role.READ,
    )
    async def follow(
        self,
        plan: _PlanId,
        serial: Annotated[int | None, "of the last answer; without it the plan is returned now"] = None,
    ) -> object:
        found = self._plan_of(plan)
        with self._server.waiting() as may_wait, trio.move_on_after(LONGEST if may_wait else 0):
            while found.serial == serial and not self._plans.stopping:
                await found.news.wait()
        if self._server.caller_may(Role.ACT):
            await self._plans.note_seen(found)
        return found.to_json()

    @method(
        "Stops a plan after the jobs that are under way. left in the result describes the nodes that a plan"
        " leaves unfinished which is stopped at once.",
        role=Role.ACT,
        recorded=True,
    )
    async def cancel(
        self, plan: _PlanId, now: Annotated[bool, "true to stop at once and let these jobs go on"] = False
    ) -> object:
        running = self._plan_of(plan)
        if not running.state.going:
            raise RefusalError(Refusal.PLAN, f"plan {running.id} is {running.state}, not running")
        running.cancel(describe_caller())
        if now:
            running.scope.cancel()
            with trio.move_on_after(_ENDING):
                while running.state.going:
                    await running.news.wait()
        return {**running.summary(), "left": unfinished_nodes(running.run) if now else []}

    @method(
        "Removes a plan that is not being carried out, with its record. dismissed_until in the result is the"
        " time until which its policy does nothing in the node group, unless N+1 is lost there.",
        role=Role.ACT,
        recorded=True,
    )
    async def forget(
        self,
        plan: _PlanId,
        seconds: Annotated[Number | None, "how long its policy does nothing in this node group"] = None,
    ) -> object:
        found = self._plan_of(plan)
        policy, bounds, until = found.facts.get("policy"), found.facts.get("bounds"), None
        if seconds is not None and (policy not in POLICIES or not bounds):
            raise RefusalError(Refusal.PLAN, f"plan {found.id} is no plan of a policy for one node group")
        await self._plans.forget(found)
        if seconds is not None and policy and bounds:
            until = self._policies.dismiss(policy, bounds["group"], seconds)
        return {**found.summary(), "dismissed_until": until}

    def _plan_of(self, name: str) -> Plan:
        found = [plan for plan in self._plans.all if plan.id.startswith(name)]
        if len(found) != 1:
            problem = "matches several plans" if found else "matches no plan"
            raise RefusalError(Refusal.PLAN, f"{name[:80]!r} {problem}; plans lists them")
        return found[0]


def _options(tool: str, given: Mapping[str, Any]) -> Any:
    """Return the typed options of a tool. Raises RefusalError."""
    if len(orjson.dumps(given)) > OPTION_CHARACTERS:
        raise RefusalError(Refusal.ARGUMENTS, f"plan: options: longer than {OPTION_CHARACTERS} characters")
    try:
        return from_json(TOOLS[tool].options, given)
    except DataError as error:
        raise RefusalError(Refusal.ARGUMENTS, f"plan: options: {error}") from None
