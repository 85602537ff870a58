"""What ``hregroup`` would do: instances moved between node groups (``hregroup(1)``)."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.groups import compression, levelling, recheck, redistribution
from ganeti_htools.engine.groups.outcome import Limits, Outcome, Possible
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.rules import Rules
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE, sorted_unique
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.moves import MovePart, NamedMove, Operation
from ganeti_htools.model.state import State
from ganeti_htools.planning import view
from ganeti_htools.planning.group_moves import Move, cost_of, jobs, moves_of
from ganeti_htools.planning.proposal import Execution, OnChange, Progress, Proposal, replanned, unwatched
from ganeti_htools.planning.view import View

if TYPE_CHECKING:
    from ganeti_htools.execution.jobs import Job, Jobsets
    from ganeti_htools.execution.review import Check, Review
    from ganeti_htools.execution.wording import Say

Action = Literal["redistribute", "compress", "balance"]
PURPOSES: Mapping[Action, str] = {
    "redistribute": "repairing node groups",
    "compress": "emptying node groups",
    "balance": "balancing node groups",
}


@dataclass(frozen=True, slots=True)
class Options:
    """What may be asked of a plan. Groups are given by name or UUID.

    ``among``: the only groups that give and take instances; all if none is named. ``disk_moves``: also
    instances whose disks have to be copied; ``allow_plain``: also those that have to be stopped for it;
    ``allow_drbd``: also mirrored ones in balancing. ``max_moves``, ``max_copy`` (MiB): none if below 0.
    ``empty``: the groups to be emptied by compression, else as many as ``number``; ``reserve``: so many
    standard instances stay free in each other group. ``min_gain``: what a move has to gain in balancing.
    """

    view: View = field(default_factory=View)
    execution: Execution = field(default_factory=Execution)
    action: Action = "redistribute"
    among: tuple[str, ...] = ()
    disk_moves: bool = True
    allow_plain: bool = False
    allow_drbd: bool = False
    max_moves: int = -1
    max_copy: int = -1
    empty: tuple[str, ...] = ()
    number: int = 1
    reserve: float = 0.0
    min_gain: float = 1e-2


def rules_of(state: State, options: Options) -> Rules:
    """What may move by the options. Raises HtoolsError for unknown names."""
    among = [_group(state, name) for name in options.among] or sorted_unique(state.group).tolist()
    return Rules(
        view.wanted(state, options.view),
        frozenset(among),
        mirrored=options.disk_moves and (options.action != "balance" or options.allow_drbd),
        plain=options.disk_moves and options.allow_plain,
    )


def _group(state: State, name: str) -> int:
    return view.group(state, name, f"Node group {name} not found")


def plan(state: State, options: Options, progress: Progress) -> Outcome:
    """The moves. Raises HtoolsError for unknown names."""
    rules, limits = rules_of(state, options), Limits(options.max_moves, options.max_copy)
    if options.action == "redistribute":
        return redistribution.redistribute(state, rules, limits, progress)
    if options.action == "compress":
        empty = [_group(state, name) for name in options.empty]
        return compression.compress(state, rules, limits, empty, options.number, options.reserve, progress)
    return levelling.level(state, rules, limits, options.min_gain, progress)


def reported(before: State, after: State) -> Cluster:
    """The cluster as nodes will report it once instances have moved, with the memory that is free then."""
    settled, taken = after.to_cluster(), after.columns.i_mem - before.columns.i_mem
    pairs = zip(settled.nodes, taken.tolist(), strict=True)
    return replace(settled, nodes=tuple(replace(node, f_mem=node.f_mem - mem) for node, mem in pairs))


def propose(cluster: Cluster, options: Options, progress: Progress) -> Proposal:
    """The plan for a cluster. Raises HtoolsError."""
    state = view.state_of(cluster, options.view)
    outcome = plan(state, options, progress)
    moves = moves_of(state, outcome)
    everywhere = state.group == state.group
    return Proposal(
        PURPOSES[options.action],
        tuple(cluster.groups[group].name for group in sorted(rules_of(state, options).groups)),
        jobs(state, moves),
        {"before": score_of(state, everywhere), "after": score_of(outcome.after.state, everywhere)},
        cost_of(moves),
        told(state, outcome, moves),
        lambda on_change, say: reviewer(as_decided(state, options, outcome), on_change, say),
    )


def as_decided(state: State, options: Options, outcome: Outcome) -> Options:
    """The options with which a plan is made anew half-way: the groups that it empties remain the same."""
    if not outcome.done or options.action != "compress":
        return options
    return replace(options, empty=tuple(state.cluster.groups[group].uuid for group in outcome.done))


def unrepaired(options: Options, outcome: Outcome) -> bool:
    """Whether something is left undone that was asked for."""
    return bool(outcome.failed) and (options.action != "compress" or bool(options.empty))


def told(state: State, outcome: Outcome, moves: Sequence[Move]) -> dict[str, Any]:
    """An outcome as JSON, from which :func:`plan_again` makes the same plan."""
    groups = state.cluster.groups
    return {
        "steps": [
            {
                "instance": move.step.instance,
                "parts": [[operation.value, node] for operation, node in move.step.parts],
                "from": move.step.was,
                "to": move.step.now,
            }
            for move in moves
        ],
        "done": [groups[group].name for group in outcome.done],
        "failed": [[groups[group].name, why] for group, why in outcome.failed],
        "possible": [[groups[each.group].name, each.moves, each.copied] for each in outcome.possible],
    }


def plan_again(state: State, options: Options, found: Mapping[str, Any]) -> Outcome:
    """Make a plan again that somebody else has found (``found`` of a proposal). Raises DataError."""
    rows = {row.name: index for index, row in enumerate(state.cluster.instances)}
    again = Regrouping(state, rules_of(state, options))
    try:
        for move in found["steps"]:
            parts = [
                MovePart(Operation(operation), NOWHERE if node is None else state.nodes[node])
                for operation, node in move["parts"]
            ]
            if not again.make(rows[move["instance"]], parts):
                raise DataError(
                    f"the plan moves instance {move['instance']}, which cannot be moved like that"
                )
        done = tuple(_group(state, name) for name in found["done"])
        failed = tuple((_group(state, name), str(why)) for name, why in found["failed"])
        possible = tuple(Possible(_group(state, name), *amounts) for name, *amounts in found["possible"])
    except (KeyError, TypeError, ValueError):
        raise DataError("htoolsd tells the plan in another form than expected") from None
    return Outcome(again, done, failed, possible)


def _half_way(state: State, rest: "Jobsets") -> "Review":
    """The review of a plan that fits: what has gone a part of its way only has the rest to go."""
    from ganeti_htools.execution.review import Review

    rows = {row.name: index for index, row in enumerate(state.cluster.instances)}
    ahead: list[str] = []

    def shortened(job: "Job") -> "Job":
        move = job.step
        left = recheck.left(state, rows[move.instance], move) if isinstance(move, NamedMove) else None
        if not isinstance(move, NamedMove) or left is None or left is move:
            return job
        ahead.append(move.instance)
        gone = len(move.parts) - len(left.parts)
        return replace(job, opcodes=job.opcodes[gone:], commands=job.commands[gone:], step=left)

    shorter = [[shortened(job) for job in jobs] for jobs in rest]
    if not ahead:
        return Review()
    plan = [left for jobs in shorter if (left := [job for job in jobs if job.opcodes])]
    return Review(f"a part of the way has been gone by {', '.join(ahead)}", plan)


def reviewer(
    options: Options,
    on_change: OnChange,
    say: "Say",
    watched: Callable[[], AbstractContextManager[Progress]] = unwatched,
) -> "Check":
    """A function that checks the rest of a plan.

    Where the rest does not fit, it says so, and plans anew if ``on_change`` allows it.
    """
    from ganeti_htools.execution.review import Review

    def check(cluster: Cluster, rest: "Jobsets", made: int) -> "Review":
        state = view.state_of(cluster, options.view)
        moves = [job.step for jobs in rest for job in jobs if isinstance(job.step, NamedMove)]
        obstacle = recheck.obstacle(Regrouping(state, rules_of(state, options)), moves)
        if obstacle is None:
            return _half_way(state, rest)
        left = options.max_moves if options.max_moves < 0 else max(0, options.max_moves - made)
        fewer = replace(options, max_moves=left)
        new = replanned(obstacle, on_change, say, watched, lambda progress: plan(state, fewer, progress))
        return Review(obstacle, None if new is None else jobs(state, moves_of(state, new)))

    return check
