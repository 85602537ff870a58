"""Plans of ``hbal``: moves that balance node groups (``hbal(1)``)."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from ganeti_htools.backends.haskell import fixed, show
from ganeti_htools.engine.balancing.balance import score_of, stepwise
from ganeti_htools.engine.balancing.recheck import obstacle
from ganeti_htools.engine.moving.named_moves import named
from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.engine.rules.broken_rules import breaches
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.moves import Move, NamedMove
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import counted
from ganeti_htools.planning import steps, view
from ganeti_htools.planning.balancing.node_groups import select, worst_first
from ganeti_htools.planning.balancing.patience import SearchSteps, SearchTime
from ganeti_htools.planning.jobsets import Names, PlannedMove, cost_of, jobs_of, jobsets
from ganeti_htools.planning.plan import Progress, Tool, ToolOptions, ToolPlan

if TYPE_CHECKING:
    from ganeti_htools.engine.balancing.front import PricedPlan
    from ganeti_htools.engine.balancing.place_plans import SearchPatience
    from ganeti_htools.engine.balancing.replay import RatedPlan

T = TypeVar("T")
N = TypeVar("N", int, float)

# Steps of the search for plans that copy little, without a time limit: two turns at 8 prices.
EVALUATIONS = 3300
# With a time limit, plans for which --optimise keeps time.
FEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HbalOptions(ToolOptions):
    """Options of a balancing plan.

    * ``group``: name or UUID of the node group; optional if the cluster has one group.
    * ``worst_group``: balance the first group that can be improved, in order of falling scores.
    * ``all_groups``: balance every group, in the same order.
    * ``optimise``: seconds per group to look for a better plan than the greedy one.
    * ``first_job_group``: carry out the first jobset only.
    * ``repair_rules``: only make moves that repair broken rules of tags.
    * ``copying``: the price of copying, and the choice among plans.
    """

    balancing: BalancingOptions = field(default_factory=BalancingOptions)
    group: str | None = None
    optimise: float = 0.0
    first_job_group: bool = False
    worst_group: bool = False
    all_groups: bool = False
    repair_rules: bool = False
    copying: CopyingOptions = field(default_factory=CopyingOptions)

    def __post_init__(self) -> None:
        """Raises DataError if the options select groups in more than one way, or two kinds of plans."""
        if self.repair_rules and (self.optimise or self.worst_group):
            raise DataError("expected repair-rules without optimise and worst-group: scores do not matter")
        copying = self.copying
        if copying.wanted and (self.repair_rules or self.ranks_groups):
            raise DataError(
                "front, price and limits (max-copy, max-moves, max-time): expected one group, and neither"
                " repair-rules nor all-groups nor worst-group"
            )
        if copying.front and copying.priced:
            raise DataError("expected front or a price: a price chooses one plan of the front")
        if copying.pick > copying.front:
            raise DataError(f"pick: expected a number up to {copying.front}, the number of plans (front)")
        if (self.group is not None) + self.worst_group + self.all_groups > 1:
            raise DataError("expected only one of the options group, worst-group and all-groups")

    @property
    def ranks_groups(self) -> bool:
        """Whether groups are selected by their score, instead of by name."""
        return self.worst_group or self.all_groups

    def at_speeds(self, measured: Mapping[str, int]) -> "HbalOptions":
        """Return these options with measured speeds of copying (Mbit/s), by disk template, if they count."""
        counts = self.copying.wanted or self.balancing.long_factor
        if self.copying.bandwidth is not None or not counts:
            return self
        return replace(self, copying=replace(self.copying, measured=measured))

    def search_seconds(self, groups: int) -> float:
        """Return the longest time of the search on a cluster with so many groups."""
        return self.optimise * (groups if self.ranks_groups else 1)

    def after(self, moves: int) -> "HbalOptions":
        """The options for the rest of a plan after some of its moves."""
        left = _left(self.balancing.max_length, moves)
        return replace(self, balancing=replace(self.balancing, max_length=left))


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The moves in one node group, whose nodes are in ``scope``, from ``state`` to ``after``.

    ``greedy`` are the moves of the greedy plan, None if this is the greedy plan. ``front`` are the plans to
    pick from, as JSON (:func:`plan_row`). ``price`` is the default price, 0 if another one or none counts.
    """

    state: State
    group: str
    scope: Bools
    moves: Sequence[PlannedMove]
    after: State
    greedy: Sequence[PlannedMove] | None = None
    front: Sequence[Mapping[str, Any]] = ()
    price: float = 0.0

    @property
    def score_before(self) -> float:
        return score_of(self.state, self.scope)

    @property
    def score_after(self) -> float:
        return self.moves[-1].step.score if self.moves else self.score_before

    def describe(self) -> dict[str, Any]:
        def described(moves: Sequence[PlannedMove] | None) -> Any:
            return None if moves is None else steps.to_json(move.step for move in moves)

        front = {"front": list(self.front)} if self.front else {}
        return {"steps": described(self.moves), "greedy": described(self.greedy)} | front


# Plans for a group: its state, name and scope, and the options for the remaining moves.
PlanGroup = Callable[[State, str, Bools, HbalOptions], GroupPlan]
OnMove = Callable[[PlannedMove], None]  # called with each move as soon as it is found


def _left(limit: N, spent: N) -> N:
    """Return what is left of a limit; a negative one is no limit."""
    return limit if limit < 0 else max(0, limit - spent)


def _ignore(_news: object) -> None:
    """Do nothing with a move, or with progress."""


@dataclass(frozen=True)
class BalancingPlan(ToolPlan[HbalOptions]):
    """Plans for one or more node groups, each from the state after the one before.

    ``tried`` are all groups that were planned for, in order.
    """

    tried: Sequence[GroupPlan]

    @property
    def parts(self) -> Sequence[GroupPlan]:
        """The groups that the plan changes.

        With ``worst_group`` only the improved group, or the worst group if none can be improved.
        """
        if not self.options.worst_group:
            return self.tried
        return self.tried[-1:] if any(part.moves for part in self.tried) else self.tried[:1]

    @property
    def purpose(self) -> str:
        return "rebalancing"

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the balanced groups."""
        return tuple(part.group for part in self.parts)

    def score(self) -> dict[str, float]:
        return {
            "before": sum(part.score_before for part in self.parts),
            "after": sum(part.score_after for part in self.parts),
        }

    def cost(self) -> dict[str, Any]:
        return cost_of([moves for part in self.parts for moves in jobsets(part.moves)])

    def describe(self) -> dict[str, Any]:
        """Describe the steps, by group if groups are ranked."""
        found = {part.group: part.describe() for part in self.tried}
        return {"groups": found} if self.options.ranks_groups else found[self.groups[0]]

    def jobs(self) -> Jobsets:
        """Make the jobs of all groups, or the first jobset."""
        sets = [jobs for part in self.parts for jobs in jobs_of(jobsets(part.moves))]
        return executed_jobsets(sets, self.options)

    def obstacle(self, state: State, rest: Jobsets) -> str | None:
        """Make the remaining moves group by group: they improve every group. Raises HtoolsError."""
        after, movable = state.copy(), movable_instances(state, self.options)
        repairs, scopes = self.options.repair_rules, self._scopes(state)
        for name, moves in _by_group(state, self.groups, rest).items():
            scope = scopes[name]
            why = obstacle(after, scope, moves, self.options.balancing, movable)
            if why is not None:
                return why
            if not repairs and not score_of(after, scope) < score_of(state, scope):
                return "the remaining moves would not improve the score"
        if repairs and not breaches(after) < breaches(state):
            return "the remaining moves would not just repair broken rules"
        return None

    def replan(self, state: State, rest: Jobsets, made: int, progress: Progress) -> "BalancingPlan":
        """Plan for the groups from the first one that has moves left."""
        first = min(map(self.groups.index, _by_group(state, self.groups, rest)))
        left = list(self._scopes(state).items())[first:]
        options = replace(self.options.after(made), copying=self.copying_left(sum(map(len, rest))))
        return plan_groups(state, left, options, _balancer(progress))

    def _scopes(self, state: State) -> dict[str, Bools]:
        """Return the nodes of each group. Raises HtoolsError if a group is gone."""
        return {
            name: state.group == view.group(state, name, f"node group {name} is gone") for name in self.groups
        }

    def copying_left(self, rest: int) -> CopyingOptions:
        """The options of copying once so many moves are left: a plan picked from many is a limit then."""
        copying = self.options.copying
        if not (copying.limited or copying.front):
            return copying
        from ganeti_htools.engine.balancing.front import priced_plans  # seldom needed

        sets = executed_jobsets([moves for part in self.parts for moves in jobsets(part.moves)], self.options)
        steps = [move.move for moves in sets for move in moves]
        plans = list(priced_plans(self.state, copying, 0.0, steps))
        made = plans[-1 - min(rest, len(steps))]
        if copying.front:
            copying = replace(copying, front=0, pick=0, max_copy=plans[-1].copied)
        return replace(
            copying,
            max_copy=_left(copying.max_copy, made.copied),
            max_moves=_left(copying.max_moves, made.length),
            max_time=_left(copying.max_time, made.seconds),
        )


def executed_jobsets(sets: Sequence[T], options: HbalOptions) -> Sequence[T]:
    """Return the jobsets of a plan that are carried out: all, or the first."""
    return sets[:1] if options.first_job_group else sets


def state_of(cluster: Cluster, options: HbalOptions) -> State:
    """Derive the state of the cluster as the options show it. Raises HtoolsError."""
    return view.state_of(cluster, options.view)


def select_groups(state: State, options: HbalOptions) -> list[tuple[str, Bools]]:
    """Return names and nodes of the groups to balance, in order. Raises NoGroupError."""
    return worst_first(state) if options.ranks_groups else [select(state, options.group)]


def plan(state: State, options: HbalOptions, progress: Progress) -> BalancingPlan:
    """Plan for a state. Raises NoGroupError; HtoolsError for unknown names."""
    return plan_groups(state, select_groups(state, options), options, _balancer(progress))


def _balancer(progress: Progress) -> PlanGroup:
    def balance(state: State, name: str, scope: Bools, options: HbalOptions) -> GroupPlan:
        return balance_group(state, name, scope, options, progress)

    return balance


def restore(state: State, options: HbalOptions, found: Mapping[str, Any]) -> BalancingPlan:
    """Make a plan again from its description. Raises DataError."""

    def balance(state: State, name: str, scope: Bools, options: HbalOptions) -> GroupPlan:
        return restore_group(state, name, scope, options, found)

    return plan_groups(state, select_groups(state, options), options, balance)


def plan_groups(
    state: State, groups: Iterable[tuple[str, Bools]], options: HbalOptions, plan_group: PlanGroup
) -> BalancingPlan:
    """Plan for groups, one after the other. ``worst_group`` ends with the first group that is improved.

    The limit of moves is for all groups together.
    """
    tried, start, rest = list[GroupPlan](), state, options
    for name, scope in groups:
        part = plan_group(start, name, scope, rest)
        tried.append(part)
        if options.worst_group and part.moves:
            break
        start, rest = part.after, rest.after(len(part.moves))
    return BalancingPlan(state, options, tried)


def balance_group(
    state: State, name: str, scope: Bools, options: HbalOptions, progress: Progress, on_move: OnMove = _ignore
) -> GroupPlan:
    movable, after = movable_instances(state, options), state.copy()
    if options.repair_rules:
        from ganeti_htools.engine.balancing.repair import repair  # seldom needed

        after, made = repair(state, scope, options.balancing, movable)
        return GroupPlan(state, name, scope, _moves(state, made, on_move, progress), after)
    price = _default_price(state, scope, options)
    if options.copying.wanted:
        return _copying_little(state, name, scope, movable, options, price, progress, on_move)
    if not options.optimise:
        found = stepwise(after, scope, options.balancing, movable, copying=options.copying)
        return GroupPlan(state, name, scope, _moves(state, found, on_move, progress), after)
    greedy, best = _optimised(state, scope, movable, options, price, progress)
    moves, rival = _moves(state, best.steps, on_move, progress), list(map(Names(state).move, greedy.steps))
    return GroupPlan(state, name, scope, moves, best.after, rival, price=price)


def _default_price(state: State, scope: Bools, options: HbalOptions) -> float:
    """Return the price of copying if a search has none; 0 if there is no search or the options choose."""
    if options.copying.chosen or not (options.optimise or options.copying.limited):
        return 0.0
    from ganeti_htools.engine.balancing.front import default_price  # seldom needed

    return default_price(state, scope)


def _priced(options: HbalOptions, price: float) -> CopyingOptions:
    return replace(options.copying, price=price) if price else options.copying


def restore_group(
    state: State,
    name: str,
    scope: Bools,
    options: HbalOptions,
    found: Mapping[str, Any],
    on_move: OnMove = _ignore,
) -> GroupPlan:
    """Make the plan for a group again from the description of the whole plan. Raises DataError."""
    try:
        part: Mapping[str, Any] = found["groups"][name] if "groups" in found else found
        greedy, best = part["greedy"], part["steps"]
    except (KeyError, TypeError):
        raise DataError(f"htoolsd has no plan for node group {name}") from None
    movable, after = movable_instances(state, options), state.copy()
    rival = None
    if greedy is not None:
        rival = list(map(Names(state).move, steps.retrace(state.copy(), movable, greedy)))
    moves = _moves(state, steps.retrace(after, movable, best), on_move)
    price = _default_price(state, scope, options)
    return GroupPlan(state, name, scope, moves, after, rival, part.get("front", ()), price)


def _moves(
    state: State, found: Iterable[Move], on_move: OnMove, progress: Progress = _ignore
) -> Sequence[PlannedMove]:
    """Name the moves, and pass on each as soon as its step is found."""
    names, moves = Names(state), list[PlannedMove]()
    for step in found:
        moves.append(names.move(step))
        progress("")
        on_move(moves[-1])
        progress(f"{counted(len(moves), 'step')}, score {fixed(step.score, 8)}")
    return moves


def _copying_little(
    state: State,
    name: str,
    scope: Bools,
    movable: Bools,
    options: HbalOptions,
    price: float,
    progress: Progress,
    on_move: OnMove,
) -> GroupPlan:
    """Find plans that none beats in both score and copying, and choose one; with ``front`` only if it is
    picked. Raises DataError if there is none with this number. Sets that stay together do not move.
    """
    from ganeti_htools.engine.balancing.front import PLANS, choose, front, spread  # seldom needed

    copying, movable = _priced(options, price), movable & ~placement_rules.in_sets(state)
    # The most even plan, whose time counts, takes longest. Of the others the first ones matter most.
    found = front(state, scope, options.balancing, copying, movable, _patience(options, PLANS // 4, progress))
    shown = spread(found, copying.front) if copying.front else []
    if copying.pick > len(shown):
        raise DataError(f"pick: there is no plan {copying.pick}; the number of plans is {len(shown)}")
    chosen = shown[copying.pick - 1] if copying.pick else None
    if not copying.front:
        chosen = choose(found, copying, options.balancing.min_gain if price else None)
    made = chosen.steps if chosen else ()
    after = state.copy()
    for _ in steps.retrace(after, movable, steps.to_json(named(state, made))):
        pass
    moves, names = _moves(state, made, on_move), Names(state)
    usual = [names.move(step) for step in found.usual.steps]
    rows = [plan_row(number, plan) for number, plan in enumerate([found.plans[0], *shown])] if shown else []
    return GroupPlan(state, name, scope, moves, after, usual, rows, price)


def plan_row(number: int, plan: "PricedPlan") -> dict[str, Any]:
    """Describe a plan to pick as JSON. ``weighted_mib`` counts factors of instances."""
    return {
        "plan": number,
        "score": plan.score if math.isfinite(plan.score) else show(plan.score),
        "moves": plan.length,
        "disk_mib": plan.disk,
        "memory_mib": plan.memory,
        "seconds": plan.seconds,
        "weighted_mib": plan.weighted,
    }


def _patience(options: HbalOptions, plans: int, progress: Progress) -> "SearchPatience":
    """Limit a search with so many plans: by the time of the options, or by a number of steps."""
    if options.optimise:
        return SearchTime(options.optimise, plans, progress)
    return SearchSteps(EVALUATIONS, progress)


def _optimised(
    state: State, scope: Bools, movable: Bools, options: HbalOptions, price: float, progress: Progress
) -> "tuple[RatedPlan, RatedPlan]":
    """Find the greedy plan, and the best plan in the given time."""
    from ganeti_htools.engine.balancing.front import optimise  # seldom needed

    patience = _patience(options, FEW, progress)
    return optimise(state, scope, options.balancing, _priced(options, price), movable, patience)


def movable_instances(state: State, options: HbalOptions) -> Bools:
    """Return which instances may move, those that stay together with others too."""
    return view.movable(state, options.view, sets=True)


def _by_group(state: State, groups: Sequence[str], rest: Jobsets) -> dict[str, list[NamedMove]]:
    """Sort the remaining steps by the group of their instance.

    Steps of an instance that has left these groups stay with the step before, whose group rejects them.
    """
    homes = {
        instance.name: state.cluster.groups[group].name
        for instance, group in zip(state.cluster.instances, state.group[state.pnode].tolist(), strict=True)
    }
    found: dict[str, list[NamedMove]] = {}
    group = groups[0]
    for step in (job.step for jobs in rest for job in jobs):
        if step is not None:
            home = homes.get(step.instance, group)
            group = home if home in groups else group
            found.setdefault(group, []).append(step)
    return found


HBAL = Tool("hbal", HbalOptions, state_of, plan, restore)
