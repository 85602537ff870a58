"""What ``hbal`` would do: the moves that balance a node group (``hbal(1)``)."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.engine.balancing.balance import Step, score_of, stepwise
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from ganeti_htools.planning import proposal, view
from ganeti_htools.planning.jobsets import Move, Names, cost_of, jobs_of, jobsets
from ganeti_htools.planning.node_groups import select, worst_first
from ganeti_htools.planning.proposal import Execution, OnChange, Progress, Proposal
from ganeti_htools.planning.view import View

if TYPE_CHECKING:
    from ganeti_htools.engine.balancing.replay import RatedPlan
    from ganeti_htools.execution.jobs import Jobsets
    from ganeti_htools.execution.review import Check
    from ganeti_htools.execution.wording import Say

PURPOSE = "rebalancing"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """What may be asked of a plan.

    ``group``: name or UUID of the node group, which need not be named if it is the only one. ``worst_group``:
    of all groups only the first that can be improved, the worst score first; ``all_groups``: each in that
    order. ``optimise``: seconds to look for a better plan than the greedy one, for each group.
    ``first_job_group``: carry out the first jobset only.
    """

    view: View = field(default_factory=View)
    balancing: BalancingOptions = field(default_factory=BalancingOptions)
    execution: Execution = field(default_factory=Execution)
    group: str | None = None
    optimise: float = 0.0
    first_job_group: bool = False
    worst_group: bool = False
    all_groups: bool = False

    def __post_init__(self) -> None:
        """Raises DataError where it is not clear which groups are meant."""
        if (self.group is not None) + self.worst_group + self.all_groups > 1:
            raise DataError("expected only one of the options group, worst-group and all-groups")

    @property
    def ranks_groups(self) -> bool:
        """Whether groups are balanced by their score, instead of the one that is named."""
        return self.worst_group or self.all_groups


@dataclass(frozen=True, slots=True)
class Balanced:
    """The moves of a plan, and the state after them.

    ``greedy`` are the moves of the usual plan, None if the plan is that one.
    """

    moves: Sequence[Move]
    after: State
    greedy: Sequence[Move] | None = None


def select_groups(state: State, options: Options) -> list[tuple[str, Bools]]:
    """Names and nodes of the groups to be balanced, in order. Raises NoGroupError."""
    return worst_first(state) if options.ranks_groups else [select(state, options.group)]


class GroupPlan(NamedTuple):
    """What a plan does in one group, of which ``scope`` has the nodes, from a state on."""

    state: State
    group: str
    scope: Bools
    balanced: Balanced


def in_turn(
    state: State,
    groups: Iterable[tuple[str, Bools]],
    options: Options,
    balance: Callable[[State, str, Bools, Options], Balanced],
) -> Iterator[GroupPlan]:
    """Plans for groups, one after the other, each from the state after the one before.

    With ``worst_group`` the first that moves anything is the last. ``balance`` plans for one group; the most
    steps that its options allow are those that are left.
    """
    for name, scope in groups:
        balanced = balance(state, name, scope, options)
        yield GroupPlan(state, name, scope, balanced)
        if options.worst_group and balanced.moves:
            return
        state, options = balanced.after, rest_of(options, len(balanced.moves))


def concerned(parts: Sequence[GroupPlan], options: Options) -> Sequence[GroupPlan]:
    """The parts that a plan is about: with ``worst_group`` only that of the group that is balanced, or of
    the worst one if none can be improved.
    """
    if not options.worst_group:
        return parts
    return parts[-1:] if any(part.balanced.moves for part in parts) else parts[:1]


def _silent(*_lines: str) -> None:
    """Tell nobody."""


def plan(
    state: State, scope: Bools, options: Options, say: "Say" = _silent, progress: Progress = _silent
) -> Balanced:
    """Balance the nodes in scope. A line about each step goes to ``say`` as soon as it is found."""
    movable, after = view.movable(state, options.view), state.copy()
    if not options.optimise:
        steps = stepwise(after, scope, options.balancing, movable)
        return Balanced(_tell(state, scope, steps, say, progress), after)
    greedy, best = _optimised(state, scope, movable, options, progress)
    made = _tell(state, scope, best.steps, say, progress)
    return Balanced(made, best.after, list(map(Names(state).move, greedy.steps)))


def plan_again(
    state: State,
    scope: Bools,
    options: Options,
    found: Mapping[str, Any],
    say: "Say" = _silent,
    progress: Progress = _silent,
) -> Balanced:
    """Make a plan again that somebody else has found (``found`` of a proposal), and tell its steps.

    Raises DataError if ``found`` is of another form.
    """
    movable, after = view.movable(state, options.view), state.copy()
    greedy = None
    if found["greedy"] is not None:
        steps = proposal.retraced(state.copy(), movable, found["greedy"])
        greedy = list(map(Names(state).move, steps))
    made = _tell(state, scope, proposal.retraced(after, movable, found["steps"]), say, progress)
    return Balanced(made, after, greedy)


def _tell(
    state: State, scope: Bools, steps: Iterable[Step], say: "Say", progress: Progress
) -> Sequence[Move]:
    """The moves that steps make. Each is told as soon as the step is found."""
    names = Names(state)
    here = np.flatnonzero(scope[state.pnode]).tolist()
    longest = max((len(names.instances[row]) for row in here), default=0)
    nodes = 2 * max((len(names.nodes[row]) for row in np.flatnonzero(scope).tolist()), default=0) + 1
    made: list[Move] = []
    for step in steps:
        move = names.move(step)
        made.append(move)
        was, now = ":".join(move.was), ":".join(move.now)
        score = fixed(step.score, 8).rjust(12)
        progress("")
        say(
            f"  {len(made):3}. {move.instance:{longest}} {was:{nodes}} => {now:{nodes}} {score}"
            f" a={move.summary}"
        )
        progress(f"{len(made)} steps, score {fixed(step.score, 8)}")
    return made


def _optimised(
    state: State, scope: Bools, movable: Bools, options: Options, progress: Progress
) -> "tuple[RatedPlan, RatedPlan]":
    """The greedy plan and the best one found in the time given."""
    from ganeti_htools.engine.balancing.optimise import optimise  # seldom needed

    end: float | None = None

    def going(score: float) -> bool:
        nonlocal end
        progress(f"optimising, score {fixed(score, 8)}")
        end = time.monotonic() + options.optimise if end is None else end
        return time.monotonic() < end

    return optimise(state, scope, options.balancing, movable, going)


def jobs(parts: Sequence[GroupPlan], options: Options) -> "Jobsets":
    """The jobs that carry out the parts of a plan, one after the other."""
    return carried_out(
        [jobs for part in parts for jobs in jobs_of(part.state, jobsets(part.balanced.moves))], options
    )


def carried_out(sets: Sequence[T], options: Options) -> Sequence[T]:
    """Those jobsets of a plan that are to be carried out: all, or the first."""
    return sets[:1] if options.first_job_group else sets


def propose(cluster: Cluster, options: Options, progress: Progress) -> Proposal:
    """The plan for a cluster. Raises HtoolsError.

    Of several groups the scores are added up.
    """
    state = view.state_of(cluster, options.view)

    def balance(start: State, _name: str, scope: Bools, options: Options) -> Balanced:
        return plan(start, scope, options, progress=progress)

    def review(on_change: OnChange, say: "Say") -> "Check":
        from ganeti_htools.planning.balance_review import reviewer  # needed only where jobs are submitted

        return reviewer(options, names, on_change, say)

    tried = list(in_turn(state, select_groups(state, options), options, balance))
    parts = concerned(tried, options)
    names = tuple(part.group for part in parts)
    found = {part.group: _told(part) for part in tried}
    return Proposal(
        PURPOSE,
        names,
        jobs(parts, options),
        {"before": sum(map(_before, parts)), "after": sum(map(_after, parts))},
        cost_of([moves for part in parts for moves in jobsets(part.balanced.moves)]),
        {"groups": found} if options.ranks_groups else found[names[0]],
        review,
    )


def _before(part: GroupPlan) -> float:
    return score_of(part.state, part.scope)


def _after(part: GroupPlan) -> float:
    moves = part.balanced.moves
    return moves[-1].step.score if moves else _before(part)


def _told(part: GroupPlan) -> dict[str, Any]:
    def told(moves: Sequence[Move] | None) -> Any:
        return None if moves is None else proposal.told(part.state, [move.step for move in moves])

    return {"steps": told(part.balanced.moves), "greedy": told(part.balanced.greedy)}


def found_in(found: Mapping[str, Any], group: str) -> Mapping[str, Any]:
    """What of ``found`` of a proposal is about a group. Raises DataError if nothing is."""
    try:
        part: Mapping[str, Any] = found["groups"][group] if "groups" in found else found
    except (KeyError, TypeError):
        raise DataError(f"htoolsd has no plan for node group {group}") from None
    return part


def rest_of(options: Options, made: int) -> Options:
    """The options for the rest of a plan of which so many moves have been made."""
    longest = options.balancing.max_length
    left = longest if longest < 0 else max(0, longest - made)
    return replace(options, balancing=replace(options.balancing, max_length=left))
