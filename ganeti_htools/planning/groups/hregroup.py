"""Plans of ``hregroup``: moves of instances between node groups (``hregroup(1)``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.groups import compression, levelling, redistribution, regrouping
from ganeti_htools.engine.groups.outcome import EmptiableGroup, RegroupingLimits, RegroupingOutcome
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.review import Review
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE, sorted_unique
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.state import State
from ganeti_htools.planning import view
from ganeti_htools.planning.group_moves import cost_of, without_parts_made
from ganeti_htools.planning.jobsets import Names, PlannedMove, jobs_of, jobsets
from ganeti_htools.planning.plan import Progress, Tool, ToolOptions, ToolPlan

Action = Literal["redistribute", "compress", "balance"]
PURPOSES: Mapping[Action, str] = {
    "redistribute": "repairing node groups",
    "compress": "emptying node groups",
    "balance": "balancing node groups",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegroupOptions(ToolOptions):
    """Options of a plan between node groups. Groups are given by name or UUID.

    * ``among``: the only groups that give and take instances; all groups if empty.
    * ``partial``: of a group that cannot be repaired completely, make the possible moves.
    * ``disk_moves``: also move instances whose disks have to be copied.
    * ``allow_plain``: also move instances that have to be stopped for the copy.
    * ``allow_drbd``: also move mirrored instances when balancing.
    * ``max_moves``, ``max_copy`` (MiB): limits; negative for no limit.
    * ``empty``: the groups that compression empties, else as many as ``number``.
    * ``reserve``: standard instances for which every other group keeps room.
    * ``min_gain``: least gain of a move when balancing.
    """

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
    partial: bool = False


@dataclass(frozen=True)
class RegroupPlan(ToolPlan[RegroupOptions]):
    """The outcome of an action on node groups."""

    outcome: RegroupingOutcome

    @cached_property
    def moves(self) -> Sequence[PlannedMove]:
        return list(map(Names(self.state).move, self.outcome.after.moved))

    @property
    def purpose(self) -> str:
        return PURPOSES[self.options.action]

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups that may give and take instances."""
        rows = sorted(rules_of(self.state, self.options).groups)
        return tuple(self.state.cluster.groups[row].name for row in rows)

    @property
    def incomplete(self) -> bool:
        """Whether the plan achieves only a part of the requested action."""
        asked = self.options.action != "compress" or bool(self.options.empty)
        return asked and bool(self.outcome.failed)

    def score(self) -> dict[str, float]:
        everywhere = self.state.group == self.state.group
        after = self.outcome.after.state
        return {"before": score_of(self.state, everywhere), "after": score_of(after, everywhere)}

    def cost(self) -> dict[str, Any]:
        return cost_of(self.moves)

    def describe(self) -> dict[str, Any]:
        groups, outcome = self.state.cluster.groups, self.outcome
        return {
            "steps": [
                {
                    "instance": move.step.instance,
                    "parts": [[operation.value, node] for operation, node in move.step.parts],
                    "from": move.step.was,
                    "to": move.step.now,
                }
                for move in self.moves
            ],
            "done": [groups[group].name for group in outcome.done],
            "failed": [[groups[group].name, why] for group, why in outcome.failed],
            "possible": [[groups[each.group].name, each.moves, each.copied] for each in outcome.possible],
        }

    def jobs(self) -> Jobsets:
        return jobs_of(jobsets(self.moves))

    def obstacle(self, state: State, rest: Jobsets) -> str | None:
        """Make the remaining moves; an instance on its way only makes the rest of its move."""
        moves = [job.step for jobs in rest for job in jobs if job.step is not None]
        return regrouping.recheck_moves(Regrouping(state, rules_of(state, self.options)), moves)

    def confirm(self, state: State, rest: Jobsets) -> Review:
        """Leave out the parts of moves that have been made."""
        return without_parts_made(state, rest)

    def replan(self, state: State, _rest: Jobsets, made: int, progress: Progress) -> "RegroupPlan":
        options, done, groups = self.options, self.outcome.done, self.state.cluster.groups
        if options.max_moves >= 0:
            options = replace(options, max_moves=max(0, options.max_moves - made))
        if options.action == "compress" and not options.empty:
            options = replace(options, empty=tuple(groups[group].uuid for group in done))
        return plan(state, options, progress)


def state_of(cluster: Cluster, options: RegroupOptions) -> State:
    """Derive the state of the cluster as the options show it. Raises HtoolsError."""
    return view.state_of(cluster, options.view)


def rules_of(state: State, options: RegroupOptions) -> RegroupingRules:
    """Return which instances may move between which groups. Raises HtoolsError for unknown names."""
    among = [_group(state, name) for name in options.among] or sorted_unique(state.group).tolist()
    return RegroupingRules(
        view.selected(state, options.view),
        frozenset(among),
        mirrored=options.disk_moves and (options.action != "balance" or options.allow_drbd),
        plain=options.disk_moves and options.allow_plain,
    )


def _group(state: State, name: str) -> int:
    return view.group(state, name, f"Node group {name} not found")


def plan(state: State, options: RegroupOptions, progress: Progress) -> RegroupPlan:
    """Plan for a state. Raises HtoolsError for unknown names."""
    return RegroupPlan(state, options, _outcome(state, options, progress))


def _outcome(state: State, options: RegroupOptions, progress: Progress) -> RegroupingOutcome:
    rules, limits = rules_of(state, options), RegroupingLimits(options.max_moves, options.max_copy)
    if options.action == "redistribute":
        return redistribution.redistribute(state, rules, limits, progress, options.partial)
    if options.action == "compress":
        empty = [_group(state, name) for name in options.empty]
        return compression.compress(state, rules, limits, empty, options.number, options.reserve, progress)
    return levelling.level(state, rules, limits, options.min_gain, progress)


def restore(state: State, options: RegroupOptions, found: Mapping[str, Any]) -> RegroupPlan:
    """Make a plan again from its description. Raises DataError."""
    rows = state.rows_by_name()
    after = Regrouping(state, rules_of(state, options))
    for move in found["steps"]:
        parts = [
            MovePart(Operation(operation), NOWHERE if node is None else state.nodes[node])
            for operation, node in move["parts"]
        ]
        if not after.move(rows[move["instance"]], parts):
            raise DataError(f"the plan moves instance {move['instance']}, which cannot be moved like that")
    done = tuple(_group(state, name) for name in found["done"])
    failed = tuple((_group(state, name), str(why)) for name, why in found["failed"])
    possible = tuple(EmptiableGroup(_group(state, name), *amounts) for name, *amounts in found["possible"])
    return RegroupPlan(state, options, RegroupingOutcome(after, done, failed, possible))


def reported(before: State, after: State) -> Cluster:
    """Return the cluster as nodes will report it after moves, with the free memory that results."""
    settled, taken = after.to_cluster(), after.columns.i_mem - before.columns.i_mem
    pairs = zip(settled.nodes, taken.tolist(), strict=True)
    return replace(settled, nodes=tuple(replace(node, f_mem=node.f_mem - mem) for node, mem in pairs))


HREGROUP = Tool("hregroup", RegroupOptions, state_of, plan, restore)
