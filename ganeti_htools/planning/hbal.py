"""What ``hbal`` would do: the moves that balance a node group (``hbal(1)``)."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.engine.balancing.balance import Balancing, Step, score_of, stepwise
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State
from ganeti_htools.planning import proposal, view
from ganeti_htools.planning.jobsets import Move, Names, cost_of, jobs_of, jobsets
from ganeti_htools.planning.proposal import Execution, OnChange, Progress, Proposal, unwatched
from ganeti_htools.planning.view import View

if TYPE_CHECKING:
    from ganeti_htools.engine.balancing.replay import RatedPlan
    from ganeti_htools.execution.jobs import Jobsets
    from ganeti_htools.execution.review import Check, Review
    from ganeti_htools.execution.wording import Say

PURPOSE = "rebalancing"


@dataclass(frozen=True, slots=True)
class Options:
    """What may be asked of a plan.

    ``group``: name or UUID of the node group, which need not be named if it is the only one.
    ``optimise``: seconds to look for a better plan than the greedy one. ``first_job_group``: carry out the
    first jobset only.
    """

    view: View = field(default_factory=View)
    balancing: Balancing = field(default_factory=Balancing)
    execution: Execution = field(default_factory=Execution)
    group: str | None = None
    optimise: float = 0.0
    first_job_group: bool = False


@dataclass(frozen=True, slots=True)
class Balanced:
    """The moves of a plan, and the state after them.

    ``greedy`` are the moves of the usual plan, None if the plan is that one.
    """

    moves: Sequence[Move]
    after: State
    greedy: Sequence[Move] | None = None


class NoGroupError(HtoolsError):
    """It is not clear which node group is meant. ``title`` says why, ``names`` are the groups there are."""

    def __init__(self, title: str, names: Iterable[str]) -> None:
        self.title, self.names = title, tuple(names)
        super().__init__(f"{title} {', '.join(self.names)}")


def select_group(state: State, wanted: str | None) -> tuple[str, Bools]:
    """Name and nodes of the group to be balanced. Raises NoGroupError."""
    groups = state.cluster.groups
    if wanted is None:
        present = sorted(set(state.group.tolist()))
        if len(present) != 1:
            raise NoGroupError("Found multiple node groups:", (groups[row].name for row in present))
        return groups[present[0]].name, np.ones(len(state.group), np.bool_)
    rows = [row for row, group in enumerate(groups) if wanted in (group.name, group.uuid)]
    if len(rows) != 1:
        title = f"Node group {wanted} not found. Node group list is:"
        raise NoGroupError(title, (group.name for group in groups))
    return groups[rows[0]].name, state.group == rows[0]


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


def jobs(state: State, moves: Sequence[Move], options: Options) -> "Jobsets":
    """The jobs that carry out the moves of a plan for a state."""
    sets = jobsets(moves)
    return jobs_of(state, sets[:1] if options.first_job_group else sets)


def propose(cluster: Cluster, options: Options, progress: Progress) -> Proposal:
    """The plan for a cluster. Raises HtoolsError."""
    state = view.state_of(cluster, options.view)
    group, scope = select_group(state, options.group)
    initial = score_of(state, scope)
    balanced = plan(state, scope, options, progress=progress)
    made, greedy = balanced.moves, balanced.greedy

    def told(moves: Sequence[Move]) -> list[dict[str, Any]]:
        return proposal.told(state, [move.step for move in moves])

    return Proposal(
        PURPOSE,
        (group,),
        jobs(state, made, options),
        {"before": initial, "after": made[-1].step.score if made else initial},
        cost_of(made, jobsets(made)),
        {"steps": told(made), "greedy": None if greedy is None else told(greedy)},
        lambda on_change, say: reviewer(options, group, on_change, say),
    )


def reviewer(
    options: Options,
    group: str,
    on_change: OnChange,
    say: "Say",
    watched: Callable[[], AbstractContextManager[Progress]] = unwatched,
) -> "Check":
    """A function that checks the rest of a plan for a node group, given by its name.

    Where the rest does not fit, it says so, and plans anew if ``on_change`` allows it.
    """
    from ganeti_htools.engine.balancing import recheck
    from ganeti_htools.execution.review import Review

    def check(cluster: Cluster, rest: "Jobsets", made: int) -> "Review":
        state = view.state_of(cluster, options.view)
        scope: Bools = state.group == view.group(state, group, f"node group {group} is gone")
        steps = [job.step for jobs in rest for job in jobs if job.step is not None]
        after = state.copy()
        movable = view.movable(state, options.view)
        obstacle = recheck.obstacle(after, scope, steps, options.balancing, movable)
        if obstacle is None and not score_of(after, scope) < score_of(state, scope):
            obstacle = "the rest of it would not improve the score any more"
        if obstacle is None:
            return Review()
        if on_change == "stop":
            return Review(obstacle)
        say(f"The plan does not fit the cluster any more: {obstacle}", "Planning anew...")
        with watched() as progress:
            new = plan(state, scope, _without(options, made), say, progress)
        return Review(obstacle, jobs(state, new.moves, options))

    return check


def _without(options: Options, made: int) -> Options:
    """The options for the rest of a plan of which so many moves have been made."""
    longest = options.balancing.max_length
    left = longest if longest < 0 else max(0, longest - made)
    return replace(options, balancing=replace(options.balancing, max_length=left))
