"""What ``hsqueeze`` would do: nodes emptied and powered down, or powered up and filled (``hsqueeze(1)``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.squeezing import squeeze
from ganeti_htools.engine.squeezing.power_group import switched
from ganeti_htools.engine.squeezing.power_plan import Action, Allowed, Phase, PowerPlan, Wishes
from ganeti_htools.engine.squeezing.reserve import room_on_all
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.errors import during
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.state import State
from ganeti_htools.model.without_instances import reports, without_instances
from ganeti_htools.planning import leftovers, proposal, standby, view
from ganeti_htools.planning.jobsets import Move, Names, cost_of, jobs_of, jobsets
from ganeti_htools.planning.power_reserve import kept_free
from ganeti_htools.planning.proposal import Execution, OnChange, Progress, Proposal
from ganeti_htools.planning.view import View

if TYPE_CHECKING:
    from ganeti_htools.execution.jobs import Jobsets
    from ganeti_htools.execution.review import Check
    from ganeti_htools.execution.wording import Say

TITLES = {
    Action.NOTHING: "'No action'",
    Action.OFFLINE: "'Nodes to offline'",
    Action.ONLINE: "'Nodes to online'",
}
_USUAL = 2.0  # what is left free, in standard instances, unless told otherwise


@dataclass(frozen=True, slots=True)
class Options:
    """What may be asked of a plan.

    ``minimal_resources``: nodes are powered up if any online one has less free than this multiple of the
    standard instance; ``target_resources``: and down as long as all that remain keep this multiple free. If
    only one is told, the other is 2 unless that would put the target below the minimum. See :attr:`factors`.
    ``prefer`` and ``never`` name nodes, or tags of nodes, that are powered down first, or not at all;
    ``max_nodes``: how many at most, any number if below 0. ``allow_drbd``: also nodes with DRBD instances are
    emptied, ``allow_all``: those with plain and file ones as well, which are stopped while they are copied.
    The disk of the standard instance is kept free then, too.
    """

    view: View = field(default_factory=View)
    execution: Execution = field(default_factory=Execution)
    minimal_resources: float | None = None
    target_resources: float | None = None
    prefer: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    max_nodes: int = -1
    allow_drbd: bool = False
    allow_all: bool = False

    @property
    def allowed(self) -> Allowed:
        """Which instances may leave their nodes."""
        if self.allow_all:
            return Allowed.ALL
        return Allowed.DRBD if self.allow_drbd else Allowed.POOLS

    @property
    def factors(self) -> tuple[float, float]:
        """The minimum and the target, never less: what was powered down would be powered up again."""
        minimum, target = self.minimal_resources, self.target_resources
        if minimum is None:
            minimum = _USUAL if target is None else min(_USUAL, target)
        return minimum, max(minimum, _USUAL if target is None else target)

    @property
    def raised(self) -> str | None:
        """What there is to say if the target that was asked for is not used; None if there is nothing."""
        minimum, target = self.factors
        if self.target_resources in (None, target):
            return None
        return (
            f"target resources {self.target_resources:g} are below the minimal resources: {minimum:g} is used"
        )


def seen(cluster: Cluster, options: Options) -> State:
    """The cluster as a plan sees it: standby nodes have what they will have once they are powered up, and
    nodes that were drained for a plan are in use.

    Raises HtoolsError.
    """
    return view.state_of(standby.furnished(leftovers.in_use(cluster)), options.view)


def knowing(cluster: Cluster, before: Cluster) -> Cluster:
    """The cluster with what its nodes had in the cluster from an earlier time."""
    told = [node for node in before.nodes if reports(node)]
    return replace(cluster, standby=tuple(without_instances(before, told)))


def plan(state: State, options: Options, progress: Progress) -> PowerPlan:
    """The nodes to power down or up, and the moves."""
    minimum, target = options.factors
    return squeeze.plan(
        state,
        minimum=kept_free(state, minimum, options.allowed),
        target=kept_free(state, target, options.allowed),
        movable=view.movable(state, options.view),
        progress=lambda tried, all_of: progress(f"{tried} of {all_of} nodes tried"),
        wishes=Wishes(
            _named(state, options.prefer, "--prefer"),
            _named(state, options.never, "--never"),
            _most(state, options),
            options.allowed,
        ),
    )


def _most(state: State, options: Options) -> int | None:
    """How many nodes may be powered down besides those that an earlier run has begun with; None: any."""
    if options.max_nodes < 0:
        return None
    return max(0, options.max_nodes - len(leftovers.leftovers(state.cluster).offline))


def lacking(state: State, options: Options, scope: Bools | None = None) -> bool:
    """Whether nodes (in scope, if there is one) have too little free, so that others are powered up."""
    scope = np.ones(len(state.group), np.bool_) if scope is None else scope
    return not room_on_all(state, scope, kept_free(state, options.factors[0], options.allowed))


def may_spare(state: State, options: Options) -> bool:
    """Whether it is not ruled out from the start that a node can be powered down; :func:`plan` finds out."""
    target, movable = options.factors[1], view.movable(state, options.view)
    return squeeze.may_spare(state, kept_free(state, target, options.allowed), movable, options.allowed)


def _named(state: State, names: Sequence[str], option: str) -> frozenset[int]:
    """The rows of nodes that are named, or have a tag that is. Raises HtoolsError for what is neither."""
    rows: set[int] = set()
    for name in names:
        tagged = {row for row, node in enumerate(state.cluster.nodes) if name in node.tags}
        with during(f"{option}: neither a tag nor a node"):
            rows |= tagged or {view.node(state, name)}
    return frozenset(rows)


def stopped(state: State, plan: PowerPlan) -> list[str]:
    """The instances that run and are stopped while they are copied."""
    rows = [step.instance for step in plan.steps if step.kind is MoveKind.MOVE]
    instances = [state.cluster.instances[row] for row in dict.fromkeys(rows)]
    return [instance.name for instance in instances if instance.status.running]


def plan_again(state: State, options: Options, found: Mapping[str, Any]) -> PowerPlan:
    """Make a plan again that somebody else has found (``found`` of a proposal). Raises DataError."""
    movable, after = view.movable(state, options.view), state
    phases, steps = list[Phase](), iter(found["steps"])
    for phase in found["phases"]:
        action, rows = Action(phase["action"]), tuple(state.nodes[name] for name in phase["nodes"])
        after = switched(after, rows, action is Action.OFFLINE)
        made = proposal.retraced(after, movable, islice(steps, phase["steps"]))
        late = frozenset(state.nodes[name] for name in phase["late"])
        phases.append(Phase(action, rows, tuple(made), late))
    reasons = {state.nodes[name]: why for name, why in found["kept"].items()}
    return PowerPlan(tuple(phases), after, found["enough"], reasons)


def purpose(plan: PowerPlan) -> str:
    """What the jobs of a plan are for."""
    if plan.action is Action.NOTHING:
        return "finishing what was left"
    if plan.action is Action.OFFLINE:
        return f"condensing by {len(plan.nodes)} nodes"
    then = f", then condensing by {len(plan.replaced)}" if plan.replaced else ""
    return f"expanding by {len(plan.nodes)} nodes{then}"


def sets_of(state: State, plan: PowerPlan) -> list[list[list[Move]]]:
    """The moves of a plan for a state, in jobsets, for each phase."""
    names = Names(state, whole_instances=True)
    return [jobsets([names.move(step) for step in phase.steps]) for phase in plan.phases]


def jobs(state: State, plan: PowerPlan) -> "Jobsets":
    """The jobs that carry out a plan for a state, after those that finish what an earlier run has left there.

    Nodes are drained, emptied, tagged and marked offline before they are powered down; they are powered up,
    marked online and lose their tag before they are filled. A phase begins when the one before has ended.
    """
    from ganeti_htools.planning import power_jobs  # needed only where jobs are submitted

    left, parts = leftovers.leftovers(state.cluster), sets_of(state, plan)
    moves = iter(jobs_of(state, [jobs for part in parts for jobs in part]))
    soon = {state.cluster.nodes[row].name for phase in plan.phases[:1] for row in {*phase.nodes} - phase.late}
    drained = soon & {node.name for node in left.drained}
    sets = [*leftovers.settled(left, soon)]
    known = list(state.cluster.nodes)
    for phase, part in zip(plan.phases, parts, strict=True):
        own, nodes = list(islice(moves, len(part))), [known[row] for row in phase.nodes]
        if phase.action is Action.ONLINE:
            sets += [*power_jobs.up(nodes), *own]
            for row in phase.nodes:
                known[row] = power_jobs.awake(known[row])
        else:
            late = state.names(phase.late)
            new = [node.name for node in nodes if node.name not in drained]
            sets += [*power_jobs.emptied(new, own, late), *power_jobs.down(nodes)]
    return [jobs for jobs in sets if jobs]


def propose(cluster: Cluster, options: Options, progress: Progress) -> Proposal:
    """The plan for a cluster. Raises HtoolsError.

    It names all groups, since it may touch any node when it is made anew.
    """
    state = seen(cluster, options)
    return proposed(state, plan(state, options, progress), options)


def proposed(state: State, found: PowerPlan, options: Options) -> Proposal:
    """A plan for a state, as it is handed over."""

    def review(on_change: OnChange, say: "Say") -> "Check":
        from ganeti_htools.planning.power_review import reviewer  # needed only where jobs are submitted

        return reviewer(state, found, options, on_change, say)

    everywhere = np.ones(len(state.group), np.bool_)
    return Proposal(
        purpose(found),
        tuple(group.name for group in state.cluster.groups),
        jobs(state, found),
        {"before": score_of(state, everywhere), "after": score_of(found.state, everywhere)},
        cost_of([jobs for part in sets_of(state, found) for jobs in part]),
        {
            "action": found.action.value,
            "nodes": state.names(found.nodes),
            "phases": [
                {
                    "action": phase.action.value,
                    "nodes": state.names(phase.nodes),
                    "late": state.names(sorted(phase.late)),
                    "steps": len(phase.steps),
                }
                for phase in found.phases
            ],
            "enough": found.enough,
            "kept": {state.cluster.nodes[row].name: why for row, why in found.kept.items()},
            "steps": proposal.told(state, found.steps),
        },
        review,
    )


def marked(rest: "Jobsets", action: Action | None = None) -> list[str]:
    """The nodes that jobs are yet to mark offline, or online; only one of these with an action."""
    ops = [op for jobs in rest for job in jobs for op in job.opcodes if "offline" in op]
    wanted = [op for op in ops if action is None or op["offline"] is (action is Action.OFFLINE)]
    return [op["node_name"] for op in wanted]
