"""Plans of ``hsqueeze``: nodes emptied and powered down, or powered up and filled (``hsqueeze(1)``)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.moving.named_moves import named
from ganeti_htools.engine.squeezing import squeeze
from ganeti_htools.engine.squeezing.power_group import with_power
from ganeti_htools.engine.squeezing.power_plan import Action, AllowedMoves, Phase, PowerPlan, Wishes
from ganeti_htools.engine.squeezing.reserve import room_on_all
from ganeti_htools.engine.squeezing.squeeze import NamedPhase
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.review import Check, Review, Say
from ganeti_htools.model.cluster import Cluster, silent_nodes
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.errors import HtoolsError, during, first_names
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.state import State
from ganeti_htools.model.without_instances import reports, without_instances
from ganeti_htools.planning import steps, view
from ganeti_htools.planning.jobsets import Names, PlannedMove, cost_of, jobs_of, jobsets
from ganeti_htools.planning.plan import (
    OnChange,
    Progress,
    ProgressContext,
    Tool,
    ToolOptions,
    ToolPlan,
    silent_progress,
)
from ganeti_htools.planning.redundancy_changes import redundancy_changes
from ganeti_htools.planning.squeezing import power_jobs, power_report, standby
from ganeti_htools.planning.squeezing.leftovers import before_drain, find_leftovers
from ganeti_htools.planning.squeezing.power_jobs import nodes_to_mark
from ganeti_htools.planning.squeezing.power_reserve import kept_free
from ganeti_htools.sources.source import describe_silent

_USUAL = 2.0  # standard instances for which nodes keep room, by default


@dataclass(frozen=True, slots=True, kw_only=True)
class SqueezeOptions(ToolOptions):
    """Options of a plan to power nodes down or up.

    * ``minimal_resources``: power nodes up if any online node has room for fewer standard instances.
    * ``target_resources``: power nodes down as long as all remaining nodes keep room for this many.
    * ``prefer``, ``never``: nodes, or tags of nodes, that are powered down first, or never.
    * ``max_nodes``: power down at most this many nodes; negative for no limit.
    * ``allow_drbd``: also empty nodes with DRBD instances.
    * ``allow_all``: also empty nodes with plain and file instances, which are stopped while they are copied.
    * ``stay_up``: nodes that are not powered down for other reasons, and the reasons.

    With ``allow_drbd`` or ``allow_all`` the disk of the standard instances is kept free as well. See
    :attr:`factors` for the defaults of both amounts.
    """

    minimal_resources: float | None = None
    target_resources: float | None = None
    prefer: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    max_nodes: int = -1
    allow_drbd: bool = False
    allow_all: bool = False
    stay_up: Mapping[str, str] = field(default_factory=dict)

    @property
    def allowed(self) -> AllowedMoves:
        """Instances that may leave their nodes."""
        if self.allow_all:
            return AllowedMoves.ALL
        return AllowedMoves.DRBD if self.allow_drbd else AllowedMoves.POOLS

    @property
    def factors(self) -> tuple[float, float]:
        """Minimum and target, both 2 by default.

        The target is never below the minimum, or nodes powered down would be powered up again. A target below
        2 lowers the default minimum.
        """
        minimum, target = self.minimal_resources, self.target_resources
        if minimum is None:
            minimum = _USUAL if target is None else min(_USUAL, target)
        return minimum, max(minimum, _USUAL if target is None else target)

    @property
    def target_warning(self) -> str | None:
        """Warning that another target is used than the requested one; None if that is not so."""
        minimum, target = self.factors
        if self.target_resources in (None, target):
            return None
        return (
            f"target resources {self.target_resources:g} are below the minimal resources: {minimum:g} is used"
        )

    def sparing(self, claims: Mapping[str, Collection[str]]) -> "SqueezeOptions":
        """Return these options for a plan that must not power down these nodes: they have these claims."""
        reasons = {
            node: f"has resources claimed by {first_names(sorted(names))}" for node, names in claims.items()
        }
        return replace(self, stay_up={**self.stay_up, **reasons})


@dataclass(frozen=True)
class SqueezePlan(ToolPlan[SqueezeOptions]):
    """Nodes to power down or up, in phases, with the moves that empty or fill them."""

    power: PowerPlan
    powered_up: frozenset[str] = frozenset()  # names of the nodes that earlier plans of a run powered up

    @property
    def purpose(self) -> str:
        plan = self.power
        if plan.action is Action.NOTHING:
            return "finishing what was left"
        if plan.action is Action.OFFLINE:
            return f"condensing by {len(plan.nodes)} nodes"
        then = f", then condensing by {len(plan.replaced)}" if plan.replaced else ""
        return f"expanding by {len(plan.nodes)} nodes{then}"

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of all groups that a new plan may change."""
        names = (group.name for group in self.state.cluster.groups)
        return tuple(name for name in names if name not in self.unchanged)

    @property
    def unchanged(self) -> dict[str, str]:
        """Groups that stay as they are, and why."""
        groups = self.state.cluster.groups
        return {groups[row].name: why for row, why in _unchanged(self.state, self.options).items()}

    @property
    def stopped_instances(self) -> list[str]:
        """Names of running instances that are stopped while they are copied."""
        rows = [step.instance for step in self.power.steps if step.kind is MoveKind.MOVE]
        instances = [self.state.cluster.instances[row] for row in dict.fromkeys(rows)]
        return [instance.name for instance in instances if instance.status.running]

    @property
    def lacking_groups(self) -> list[str]:
        """Names of groups that lack minimal resources though all their standby nodes are up."""
        after, groups = self.power.state, self.state.cluster.groups
        if self.power.enough:
            return []
        return [group.name for row, group in enumerate(groups) if _lacks(after, self.options, row)]

    @property
    def costs_redundancy(self) -> bool:
        """Whether the plan may take redundancy: nodes are powered down, and nothing is to be kept free."""
        return bool(self.power.nodes) and self.power.action is Action.OFFLINE and not self.options.factors[1]

    @cached_property
    def redundancy_changes(self) -> dict[str, list[str]]:
        """Names of the instances that lose or gain redundancy by the plan."""
        return redundancy_changes(self.state, self.power.state)

    @property
    def refused(self) -> dict[str, str]:
        """Instances that stay, because their moves would take redundancy, and from whom."""
        rows = self.state.cluster.instances
        return {rows[row].name: why for row, why in self.power.refused.items()}

    def score(self) -> dict[str, float]:
        everywhere, after = self.state.everywhere, self.power.state
        return {"before": score_of(self.state, everywhere), "after": score_of(after, everywhere)}

    def sets(self) -> list[list[list[PlannedMove]]]:
        """Name the moves of each phase, in jobsets."""
        names = Names(self.state, whole_instances=True)
        return [jobsets([names.move(step) for step in phase.steps]) for phase in self.power.phases]

    def cost(self) -> dict[str, Any]:
        return cost_of([jobs for part in self.sets() for jobs in part])

    def describe(self) -> dict[str, Any]:
        state, plan = self.state, self.power
        return {
            "action": plan.action.value,
            "nodes": state.names(plan.nodes),
            "phases": [
                {
                    "action": phase.action.value,
                    "nodes": state.names(phase.nodes),
                    "late": state.names(sorted(phase.late)),
                    "steps": len(phase.steps),
                }
                for phase in plan.phases
            ],
            "enough": plan.enough,
            "kept": {state.cluster.nodes[row].name: why for row, why in plan.obstacles.items()},
            "refused": self.refused,
            "steps": steps.to_json(named(state, plan.steps)),
        }

    def jobs(self) -> Jobsets:
        """Make the jobs: first those that finish an interrupted run, then one phase after the other.

        Nodes are drained, emptied, tagged and marked offline before they are powered down. They are powered
        up, marked online and untagged before they are filled.
        """
        state, phases = self.state, self.power.phases
        left, parts = find_leftovers(state.cluster), self.sets()
        moves = iter(jobs_of([jobs for part in parts for jobs in part]))
        soon = {state.cluster.nodes[row].name for phase in phases[:1] for row in {*phase.nodes} - phase.late}
        drained = soon & {node.name for node in left.drained}
        sets = [*power_jobs.cleanup_jobs(left, soon)]
        known = list(state.cluster.nodes)
        for phase, part in zip(phases, parts, strict=True):
            own, nodes = list(islice(moves, len(part))), [known[row] for row in phase.nodes]
            if phase.action is Action.ONLINE:
                sets += [*power_jobs.power_up_jobs(nodes), *own]
                for row in phase.nodes:
                    known[row] = power_jobs.node_when_online(known[row])
            else:
                late = state.names(phase.late)
                new = [node.name for node in nodes if node.name not in drained]
                sets += [*power_jobs.drain_and_empty(new, own, late), *power_jobs.power_down_jobs(nodes)]
        return [jobs for jobs in sets if jobs]

    def jobs_for_script(self) -> Jobsets:
        """Make the jobs for a script. Where the source does not know, nodes have out-of-band programs."""
        cluster = self.state.cluster
        if any(node.master_capable is not None for node in cluster.nodes):
            return self.jobs()  # from Ganeti, which also reports the power
        nodes = tuple(replace(node, powered=not node.offline) for node in cluster.nodes)
        return replace(self, state=replace(self.state, cluster=replace(cluster, nodes=nodes))).jobs()

    def review(self, on_change: OnChange, say: Say, progress: ProgressContext = silent_progress) -> Check:
        """Make the check of the remaining phases, which says once which nodes have no out-of-band program."""
        check, said = super().review(on_change, say, progress), set[str]()

        def check_power(cluster: Cluster, rest: Jobsets, made: int) -> Review:
            ahead, nodes = nodes_to_mark(rest), {node.name: node for node in cluster.nodes}
            names = [name for name in ahead if name in nodes.keys() - said and nodes[name].powered is None]
            said.update(names)
            if names:
                say(f"No out-of-band program for {', '.join(names)}: the power is left as it is")
            return check(cluster, rest, made)

        return check_power

    def present_state(self, cluster: Cluster) -> State:
        """Derive the state of the present cluster, with figures that nodes no longer report from the plan."""
        return state_of(replace(cluster, standby=cluster.standby or self.state.cluster.standby), self.options)

    def obstacle(self, state: State, rest: Jobsets) -> str | None:
        """Make the remaining moves: nodes keep the resources free.

        Redundancy is checked after each of the moves that come next, and in the end.
        """
        options, phases = self.options, self._named_phases()
        left = _remaining(phases, rest)
        up, down = _nodes(phases, Action.ONLINE), _nodes(phases, Action.OFFLINE)
        if down and not _nodes(left, Action.OFFLINE):
            return None  # all nodes to power down are offline already
        minimum, target = (kept_free(state, factor, options.allowed) for factor in options.factors)
        promised = minimum if self.power.enough and (up or not down) else None
        movable = view.movable(state, options.view, sets=True)
        return squeeze.recheck_phases(state, left, promised, target, movable, _moves_soon(rest))

    def replan(self, state: State, rest: Jobsets, _made: int, progress: Progress) -> "SqueezePlan":
        """Plan anew. Raises HtoolsError if nodes that have been powered up would be powered up again."""
        phases, new = self._named_phases(), plan(state, self.options, progress)
        left = _nodes(_remaining(phases, rest), Action.ONLINE)
        powered_up = self.powered_up.union(() if left else _nodes(phases, Action.ONLINE))
        if in_vain := powered_up.intersection(_nodes(new._named_phases(), Action.ONLINE)):
            raise HtoolsError(f"powered up, but still offline or drained: {', '.join(sorted(in_vain))}")
        return replace(new, powered_up=powered_up)

    def _named_phases(self) -> list[NamedPhase]:
        state, own = self.state, named(self.state, self.power.steps)
        return [
            NamedPhase(
                phase.action,
                state.names(phase.nodes),
                list(islice(own, len(phase.steps))),
                state.names(sorted(phase.late)),
            )
            for phase in self.power.phases
        ]


def _nodes(phases: Sequence[NamedPhase], action: Action) -> list[str]:
    return [name for phase in phases if phase.action is action for name in phase.nodes]


def _moves_soon(rest: Jobsets) -> int:
    """Count the moves of the next jobset that has any."""
    counts = (sum(job.step is not None for job in jobs) for jobs in rest)
    return next(filter(None, counts), 0)


def _remaining(phases: Sequence[NamedPhase], rest: Jobsets) -> list[NamedPhase]:
    """Return the phases with their remaining steps, and the nodes still to be marked offline or online."""
    ahead = [job.step for jobs in rest for job in jobs if job.step is not None]
    left = list[NamedPhase]()
    for phase in reversed(phases):
        before = max(0, len(ahead) - len(phase.steps))
        to_mark = nodes_to_mark(rest, phase.action)
        nodes = [name for name in phase.nodes if name in to_mark]
        late = [name for name in phase.late if name in to_mark]
        left.append(NamedPhase(phase.action, nodes, ahead[before:], late))
        ahead = ahead[:before]
    return left[::-1]


def state_of(cluster: Cluster, options: SqueezeOptions) -> State:
    """Derive the state of the cluster as a plan needs it. Raises HtoolsError.

    Standby nodes have the resources that they have once powered up. Nodes drained by an interrupted run are
    in use.
    """
    return view.state_of(standby.with_standby_figures(before_drain(cluster)), options.view)


def with_standby_data(cluster: Cluster, before: Cluster) -> Cluster:
    """Return the cluster with the figures that its nodes reported in an earlier cluster."""
    reporting = [node for node in before.nodes if reports(node)]
    return replace(cluster, standby=tuple(without_instances(before, reporting)))


def plan(state: State, options: SqueezeOptions, progress: Progress) -> SqueezePlan:
    """Plan for a state. Raises HtoolsError for unknown names."""
    minimum, target = options.factors
    unchanged = _unchanged(state, options)
    power = squeeze.plan(
        state,
        minimum=kept_free(state, minimum, options.allowed),
        target=kept_free(state, target, options.allowed),
        movable=view.movable(state, options.view, sets=True),
        progress=progress,
        wishes=Wishes(
            _rows_of(state, options.prefer, "--prefer"),
            _never(state, options),
            _max_nodes(state, options),
            options.allowed,
            unchanged,
        ),
    )
    here = {row: unchanged[group] for row, group in enumerate(state.group.tolist()) if group in unchanged}
    return SqueezePlan(state, options, replace(power, obstacles={**power.obstacles, **here}))


def _unchanged(state: State, options: SqueezeOptions) -> dict[int, str]:
    """Return the groups (rows) with nodes that do not report, unless the plan waits for them.

    None if a run was interrupted, which may have to go on in any group.
    """
    if options.execution.wait_for_nodes or str(find_leftovers(state.cluster)):
        return {}
    silent = {
        row: silent_nodes(state.cluster, [group.name]) for row, group in enumerate(state.cluster.groups)
    }
    return {row: describe_silent(nodes) for row, nodes in silent.items() if nodes}


def _max_nodes(state: State, options: SqueezeOptions) -> int | None:
    """Return how many nodes may be powered down besides those of an interrupted run; None for no limit."""
    if options.max_nodes < 0:
        return None
    return max(0, options.max_nodes - len(find_leftovers(state.cluster).offline))


def _never(state: State, options: SqueezeOptions) -> dict[int, str]:
    """Return the nodes that are not powered down, with the reasons. Raises HtoolsError for unknown names."""
    staying = {state.nodes[name]: why for name, why in options.stay_up.items() if name in state.nodes}
    return staying | dict.fromkeys(_rows_of(state, options.never, "--never"), "is in --never")


def _rows_of(state: State, names: Sequence[str], option: str) -> frozenset[int]:
    """Return the rows of nodes given by name or tag. Raises HtoolsError for a name that is neither."""
    rows: set[int] = set()
    for name in names:
        tagged = {row for row, node in enumerate(state.cluster.nodes) if name in node.tags}
        with during(f"{option}: neither a tag nor a node"):
            rows |= tagged or {view.node(state, name)}
    return frozenset(rows)


def lacks_resources(state: State, options: SqueezeOptions, scope: Bools | None = None) -> bool:
    """Whether nodes (in scope, if given) have less than the minimum free, so that others are powered up."""
    scope = state.everywhere if scope is None else scope
    return not room_on_all(state, scope, kept_free(state, options.factors[0], options.allowed))


def _lacks(state: State, options: SqueezeOptions, group: int) -> bool:
    """Whether nodes of a group lack room, or its instances are left on nodes that are off."""
    scope = state.group == group
    stranded = (scope & state.columns.offline)[state.pnode] & ~state.forthcoming
    return bool(stranded.any()) or lacks_resources(state, options, scope)


def quick_refusals(state: State, options: SqueezeOptions) -> list[str] | None:
    """Return why no node can be powered down, by quick checks; None if one may, :func:`plan` finds out."""
    allowed, movable = options.allowed, view.movable(state, options.view, sets=True)
    kept = squeeze.unsparable(state, kept_free(state, options.factors[1], allowed), movable, allowed)
    if kept is None:
        return None
    return power_report.refusals(state, PowerPlan((), state, obstacles=kept), allowed)


def restore(state: State, options: SqueezeOptions, found: Mapping[str, Any]) -> SqueezePlan:
    """Make a plan again from its description. Raises DataError."""
    movable, after = view.movable(state, options.view, sets=True), state
    phases, own = list[Phase](), iter(found["steps"])
    for phase in found["phases"]:
        action, rows = Action(phase["action"]), tuple(state.nodes[name] for name in phase["nodes"])
        after = with_power(after, rows, action is Action.OFFLINE)
        made = steps.retrace(after, movable, islice(own, phase["steps"]))
        late = frozenset(state.nodes[name] for name in phase["late"])
        phases.append(Phase(action, rows, tuple(made), late))
    reasons = {state.nodes[name]: why for name, why in found["kept"].items()}
    instances = state.rows_by_name()
    refused = {instances[name]: why for name, why in found.get("refused", {}).items()}
    power = PowerPlan(tuple(phases), after, found["enough"], reasons, refused)
    return SqueezePlan(state, options, power)


HSQUEEZE = Tool("hsqueeze", SqueezeOptions, state_of, plan, restore)
