"""Plans of ``hmaintain``: nodes are emptied for maintenance, and get back what they had (``hmaintain(1)``).

A node has tags from the first job until maintenance ends, and a mark of the run that is at work on it. So a
second run is refused, and one that follows a crash knows what was begun.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.maintenance import emptying, returning
from ganeti_htools.engine.maintenance.emptying import Emptying
from ganeti_htools.engine.maintenance.following import follow
from ganeti_htools.engine.squeezing.candidates import drained_with_promotion, lacks_master_candidates
from ganeti_htools.execution.jobs import Job, Jobsets
from ganeti_htools.execution.review import Check, Review, Say
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.model.maintenance_tags import (
    WAS_OFFLINE,
    Home,
    beginning,
    home_of,
    home_tag,
    identity,
    maintenance_of,
    roll_tag,
    rolled_tag,
    rolled_tags,
    rows_by_identity,
    run_tag,
)
from ganeti_htools.model.moves import Move, MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.without_instances import reports
from ganeti_htools.planning import view
from ganeti_htools.planning.group_moves import cost_of, without_parts_made
from ganeti_htools.planning.jobsets import Names, PlannedMove, jobs_of, jobsets
from ganeti_htools.planning.maintenance import node_jobs
from ganeti_htools.planning.maintenance.review import follow_rest, mark_of, marks, newly_lost, other_run
from ganeti_htools.planning.plan import (
    OnChange,
    Progress,
    ProgressContext,
    Tool,
    ToolOptions,
    ToolPlan,
    silent_progress,
)

_PURPOSES = {
    "start": "maintenance",
    "offline": "offline time",
    "online": "end of offline time",
    "end": "end of maintenance",
    "forget": "end of a roll",
    "release": "end of a run",
}
# "forget" removes what a roll has noted about nodes, "release" the mark of the run.
Action = Literal["start", "offline", "online", "end", "forget", "release"]
_ON_NODES = ("offline", "online", "forget", "release")  # these move no instances


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainOptions(ToolOptions):
    """Options of a plan that begins or ends maintenance of nodes.

    * ``nodes``: names, which may be cut off at a dot.
    * ``empty``: secondaries leave as well.
    * ``keep_candidate``: nodes are not drained.
    * ``no_return``: instances stay where they are when maintenance ends.
    * ``balance``: instances do not return; the groups of the nodes are balanced instead.
    * ``take_over``: go on although another run is marked as being at work on a node.
    * ``check_redundancy``: refuse what takes the redundancy of instances on other nodes.
    * ``ignore_soft_errors``: drop the soft limits.
    * ``run``: mark of the run, TIME:USER:PROCESS.
    * ``roll``: TIME:USER of the roll that the plan belongs to; the mark stays until maintenance ends.
    """

    action: Action = "start"
    nodes: tuple[str, ...] = ()
    empty: bool = False
    keep_candidate: bool = False
    no_return: bool = False
    balance: bool = False
    take_over: bool = False
    check_redundancy: bool = True
    ignore_soft_errors: bool = False
    run: str = ""
    roll: str = ""

    @property
    def placement(self) -> PlacementOptions:
        return PlacementOptions(ignore_soft_errors=self.ignore_soft_errors)


@dataclass(frozen=True)
class MaintenancePlan(ToolPlan[MaintainOptions]):
    """Moves off nodes or back to them, and the changes of these nodes.

    * ``rows``: the nodes; ``drained``: those of them to drain.
    * ``lost``: instances (names) that may be without redundancy.
    * ``forgotten``: instances (rows) that lose their home without a move.
    """

    emptying: Emptying
    rows: tuple[int, ...]
    drained: tuple[int, ...] = ()
    lost: frozenset[str] = frozenset()
    forgotten: tuple[int, ...] = ()

    @cached_property
    def moves(self) -> Sequence[PlannedMove]:
        return list(map(Names(self.state).move, self.emptying.moved))

    @property
    def nodes(self) -> list[Node]:
        return [self.state.cluster.nodes[row] for row in self.rows]

    @property
    def purpose(self) -> str:
        what = self.nodes[0].name if len(self.rows) == 1 else f"{len(self.rows)} nodes"
        return f"{_PURPOSES[self.options.action]} of {what}"

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(self.state.group_name, self.rows)))

    @property
    def staying(self) -> dict[str, str]:
        """Instances that stay, and why."""
        rows = self.state.cluster.instances
        return {rows[index].name: why for index, why in (*self.emptying.staying, *self.emptying.refused)}

    @property
    def without_mirror(self) -> list[str]:
        """Names of instances whose secondary stays on a node in maintenance."""
        after = self.emptying.state
        away = np.isin(after.snode, self.rows) & ~np.isin(after.pnode, self.rows) & (after.snode != NOWHERE)
        return self._names(np.flatnonzero(away & (self.options.action == "start")).tolist())

    @property
    def skipped_nodes(self) -> list[str]:
        """Names of nodes about which nothing is to be done."""
        names = view.full_node_names(self.state.cluster, self.options.nodes)
        return [name for name in names if self.state.nodes[name] not in self.rows]

    @property
    def without_home(self) -> list[str]:
        """Names of instances that lose their home because its node is gone."""
        homes = homes_on(self.state, self.rows)
        return self._names(index for index in self.forgotten if homes[index][0] == NOWHERE)

    @property
    def not_drained(self) -> list[str]:
        """Names of nodes that begin maintenance without being drained."""
        rows = self.rows if self.options.action == "start" else ()
        nodes = self.state.cluster.nodes
        return [nodes[row].name for row in rows if row not in self.drained and not nodes[row].offline]

    def score(self) -> dict[str, float]:
        return {
            "before": score_of(self.state, self.state.everywhere),
            "after": score_of(self.emptying.state, self.state.everywhere),
        }

    def cost(self) -> dict[str, Any]:
        return cost_of(self.moves)

    def describe(self) -> dict[str, Any]:
        names = [row.name for row in self.state.cluster.instances]
        return {
            "nodes": self.state.names(self.rows),
            "drained": self.state.names(self.drained),
            "steps": [
                {
                    "instance": move.step.instance,
                    "parts": [[operation.value, node] for operation, node in move.step.parts],
                }
                | ({"with_next": True} if move.step.with_next else {})
                for move in self.moves
            ],
            "staying": {names[index]: why for index, why in self.emptying.staying},
            "refused": {names[index]: why for index, why in self.emptying.refused},
            "lost": sorted(self.lost),
            "forgotten": self._names(self.forgotten),
        }

    def jobs(self) -> Jobsets:
        """Make the jobs. Nodes are tagged first and drained before the moves; the mark goes last."""
        run = run_tag(self.options.run)
        named = bool(self.options.run)  # otherwise the mark may be another run's
        marked = [node for node in self.nodes if not (named and {run, *self._done} <= {*node.tags})]
        match self.options.action:
            case "start":
                sets = self._start(marked)
            case "end":
                sets = self._end(marked)
            case "offline":
                sets = [[node_jobs.set_offline(node.name) for node in self.nodes]]
            case "online":
                sets = [[node_jobs.set_online(node.name) for node in self.nodes]]
            case "forget":
                sets = [[node_jobs.forget_roll(node) for node in self.nodes]]
            case "release":
                sets = [[node_jobs.release(node.name, self.options.run) for node in self.nodes]]
        return [jobs for jobs in sets if jobs and self.rows]

    @property
    def _done(self) -> list[str]:
        """Return the tags of nodes on which a roll has done its work."""
        return [rolled_tag(self.options.roll)] if self.options.roll and self.options.action == "end" else []

    def _start(self, marked: Sequence[Node]) -> list[Sequence[Job]]:
        options, homes = self.options, self._homes()
        begun = not options.roll and not any(maintenance_of(node.tags).runs for node in self.nodes)
        if not self.moves and not self.drained and begun and all(node.in_maintenance for node in self.nodes):
            return []
        drained, names = set(self.state.names(self.drained)), [node.name for node in self.nodes]
        promoting = drained_with_promotion(self.state.cluster, drained)
        return [
            [
                node_jobs.begin(
                    node, self._tags_of(node), node.name in drained, options.run, node.name in promoting
                )
                for node in marked
            ],
            *(
                [node_jobs.with_home(job, homes[job.step.instance] if job.step else None) for job in jobs]
                for jobs in jobs_of(jobsets(self.moves))
            ),
            [] if options.roll else [node_jobs.release_after_start(name, options.run) for name in names],
        ]

    def _tags_of(self, node: Node) -> list[str]:
        """Return the tags that the node gets; those of its first ``start`` stay."""
        roll = [roll_tag(self.options.roll)] if self.options.roll else []
        if node.in_maintenance:
            return roll
        was = [WAS_OFFLINE] if node.offline and not node.drained and not reports(node) else []
        return [*beginning(self.options.run, self.options.execution.reason), *was, *roll]

    def _homes(self) -> dict[str, str | None]:
        """Return the tag with the home of each instance that moves, None if it has a home."""
        state, tags = self.state, dict[str, str | None]()
        for moved in self.emptying.moved:
            row, primary = state.cluster.instances[moved.instance], int(state.pnode[moved.instance])
            secondary, home = int(state.snode[moved.instance]), ""
            if self.options.empty and secondary != NOWHERE:
                home = identity(state.cluster.nodes[secondary])
            named = Home(identity(state.cluster.nodes[primary]), home)
            tags[row.name] = home_tag(named) if home_of(row.tags) is None else None
        return tags

    def _end(self, marked: Sequence[Node]) -> list[Sequence[Job]]:
        run, state, rows = self.options.run, self.state, self.state.cluster.instances
        facts = {node.name: maintenance_of(node.tags) for node in self.nodes}
        running = [node for node in self.nodes if not node.offline]
        here = np.isin(state.pnode, self.rows) | np.isin(state.snode, self.rows)
        mirrored = [
            rows[index]
            for index in np.flatnonzero(here & ~state.forthcoming).tolist()
            if rows[index].template is DiskTemplate.DRBD and rows[index].status.running
        ]
        instances = {row.name: row for row in rows}
        volumes = any(row.template.local_storage for row in rows) and bool(running)
        return [
            [
                node_jobs.reopen(node, facts[node.name].drained, run, not node.offline, self._done)
                for node in marked
            ],
            [node_jobs.find_volumes([node.name for node in running])] if volumes else [],
            *node_jobs.in_sets([node_jobs.activate(row.name) for row in mirrored] if running else []),
            *(
                [
                    node_jobs.without_home(job, instances[job.step.instance])
                    if job.step and not self.options.balance
                    else job
                    for job in jobs
                ]
                for jobs in jobs_of(jobsets(self.moves))
            ),
            *node_jobs.in_sets([node_jobs.forget_home(rows[index]) for index in self.forgotten]),
            [node_jobs.end(node, facts[node.name].drained, run) for node in self.nodes],
        ]

    def review(self, on_change: OnChange, say: Say, progress: ProgressContext = silent_progress) -> Check:
        """Make the check of the remaining jobs, if they depend on the cluster."""
        if self.options.action in _ON_NODES:
            return lambda _cluster, _rest, _made: Review()
        return super().review(on_change, say, progress)

    def present_state(self, cluster: Cluster) -> State:
        """Derive the state of the present cluster. Raises HtoolsError for nodes that are gone."""
        return state_of(cluster, self.options)

    def obstacle(self, state: State, rest: Jobsets) -> str | None:
        """Make the remaining moves. Before maintenance has begun nothing may have come to the nodes.

        Raises HtoolsError if another run is at work on the nodes.
        """
        options, rows = self.options, [state.nodes[node.name] for node in self.nodes]
        nodes = [state.cluster.nodes[row] for row in rows]
        if why := other_run(nodes, options.run, rest, marks(self.nodes)):
            raise HtoolsError(why)
        leaving = _mask(state, rows if options.action == "start" else ())
        remaining = follow_rest(state, rest, state.columns.offline | leaving, options.placement)
        if isinstance(remaining, str):
            return remaining
        after, moving = remaining
        for index in emptying.concerned(state, leaving, options.empty):
            if index not in moving and emptying.stays(state, index) is None:
                return f"instance {state.cluster.instances[index].name} is on a node that is to be emptied"
        if not options.check_redundancy:
            return None
        return newly_lost(emptying.closed(after, leaving), leaving, self.lost)

    def confirm(self, state: State, rest: Jobsets) -> Review:
        """Leave out the parts of moves that have been made."""
        return without_parts_made(state, rest)

    def replan(self, state: State, _rest: Jobsets, _made: int, progress: Progress) -> "MaintenancePlan":
        """Plan anew for nodes that have the mark of this run."""
        return plan(state, replace(self.options, take_over=True), progress)

    def _names(self, rows: Iterable[int]) -> list[str]:
        return self.state.instance_names(rows)


def state_of(cluster: Cluster, options: MaintainOptions) -> State:
    """Derive the state of the cluster. Nodes whose maintenance ends take instances. Raises HtoolsError."""
    if options.action != "end":
        return view.state_of(cluster, options.view)
    names = set(view.full_node_names(cluster, options.nodes))
    rows = (_reopened(node) if node.name in names else node for node in cluster.nodes)
    state = view.state_of(replace(cluster, nodes=tuple(rows)), options.view)
    for name in names:
        row = state.nodes[name]
        state.columns.offline[row] = state.cluster.nodes[row].offline
    return state


def _reopened(node: Node) -> Node:
    """Return a node as it is once its maintenance has ended; what we have drained is in use."""
    ours = maintenance_of(node.tags).drained and reports(node)
    return replace(node, offline=False) if ours else node


def plan(
    state: State, options: MaintainOptions, progress: Progress, reporter: Reporter = SILENT
) -> MaintenancePlan:
    """Plan for a state. Raises HtoolsError, with the reasons, for what is not safe."""
    rows = _rows(state, options)
    if options.action in _ON_NODES:
        concerned = tuple(row for row in rows if _is_concerned(state, row, options))
        return MaintenancePlan(state, options, Emptying((), state), concerned)
    for row in rows if not options.take_over else ():
        refuse_other_run(state.cluster.nodes[row], options)
    if options.action == "start":
        return _start(state, options, rows, progress, reporter)
    return _end(state, options, rows, reporter)


def _is_concerned(state: State, row: int, options: MaintainOptions) -> bool:
    """Whether there is anything to do about a node (row). One with instances is not set offline."""
    node = state.cluster.nodes[row]
    if options.action == "forget":
        return bool(rolled_tags(node.tags))
    facts = maintenance_of(node.tags)
    if options.action == "release":
        return mark_of(options.run) in facts.runs
    if options.action == "online":
        return facts.set_offline
    return facts.drained and not facts.set_offline and not len(state.primaries_of(row))


def refuse_other_run(node: Node, options: MaintainOptions) -> None:
    """Raises HtoolsError if another run is marked as being at work on a node."""
    others = sorted(marks([node]) - {mark_of(options.run)})
    if others:
        raise HtoolsError(
            f"node {node.name}: another run is at work there or was cut off ({others[0]});"
            " --take-over goes on in its place"
        )


def _start(
    state: State, options: MaintainOptions, rows: tuple[int, ...], progress: Progress, reporter: Reporter
) -> MaintenancePlan:
    leaving, names = _mask(state, rows), ", ".join(state.names(rows))
    found = emptying.empty_nodes(
        state,
        leaving,
        options.empty,
        view.selected(state, options.view, sets=True),
        options.placement,
        lambda done, number: progress(f"{done} of {number} instances placed"),
        reporter,
    )
    instances = state.cluster.instances
    if found.refused:
        reasons = {instances[index].name: why for index, why in found.refused}
        raise HtoolsError(f"{names}: not safe: {node_jobs.describe(reasons)}")
    lost = frozenset[str]()
    if options.check_redundancy:
        lost = lost_names(state)
        new = newly_lost(found.state, leaving, lost)
        if new is not None:
            raise HtoolsError(f"{names}: not safe: {new}; --no-capacity-checks accepts that")
    return MaintenancePlan(state, options, found, rows, _to_drain(state, rows, options), lost)


def _to_drain(state: State, rows: Iterable[int], options: MaintainOptions) -> tuple[int, ...]:
    """Return the nodes to drain: not the master, not the last that can be master candidates."""
    online, drained = ~state.columns.offline, list[int]()
    for row in () if options.keep_candidate else rows:
        node = state.cluster.nodes[row]
        if node.master or node.drained or node.offline:
            continue
        left = online.copy()
        left[row] = False
        if not lacks_master_candidates(state, left):
            online = left
            drained.append(row)
    return tuple(drained)


def _end(
    state: State, options: MaintainOptions, rows: tuple[int, ...], reporter: Reporter
) -> MaintenancePlan:
    concerned = homes_on(state, rows)
    homes_of_some = {row for home in concerned.values() for row in home}
    rows = tuple(row for row in rows if state.cluster.nodes[row].in_maintenance or row in homes_of_some)
    for row in rows:
        _refuse_offline(state.cluster.nodes[row])
    stay = options.no_return or options.balance
    homes = {index: home for index, home in concerned.items() if home[0] != NOWHERE and not stay}
    movable, placement = view.selected(state, options.view, sets=True), options.placement
    found = returning.return_home(state, homes, movable, placement, options.check_redundancy, reporter)
    moving = {moved.instance for moved in found.moved} | {index for index, _ in found.refused}
    if options.balance:
        found = returning.balance(state, rows, view.movable(state, options.view, sets=True), placement)
    forgotten = tuple(index for index in concerned if index not in moving)
    lost = lost_names(state) | lost_names(found.state) if options.check_redundancy else frozenset[str]()
    return MaintenancePlan(state, options, found, rows, (), lost, forgotten)


def lost_names(state: State) -> frozenset[str]:
    """Return the names of instances that would not come back after the loss of their primary."""
    rows = np.flatnonzero(returning.lost_now(state)).tolist()
    return frozenset(state.cluster.instances[index].name for index in rows)


def _refuse_offline(node: Node) -> None:
    if maintenance_of(node.tags).set_offline:
        raise HtoolsError(f"node {node.name}: is offline for its maintenance; -X sets it online first")
    if node.offline and not node.drained and not maintenance_of(node.tags).was_offline and not reports(node):
        raise HtoolsError(
            f"node {node.name}: is offline or does not report; expected it in use:"
            f" gnt-node modify --offline=no {node.name}"
        )


def homes_on(state: State, rows: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Return the homes of instances (rows) that are on these nodes, or whose home is gone.

    A node that is gone is NOWHERE. Homes are named by UUID, which text files do not have.
    """
    known, here = rows_by_identity(state.cluster), set(rows)
    complete = any(node.uuid for node in state.cluster.nodes)
    found = dict[int, tuple[int, int]]()
    for index, row in enumerate(state.cluster.instances):
        home = home_of(row.tags)
        if home is None or not (complete or home.primary in known):
            continue
        nodes = known.get(home.primary, NOWHERE), known.get(home.secondary, NOWHERE)
        if here.intersection(nodes) or nodes[0] == NOWHERE:
            found[index] = nodes
    return found


def _rows(state: State, options: MaintainOptions) -> tuple[int, ...]:
    if not options.nodes:
        raise HtoolsError("expected the names of nodes")
    names = view.full_node_names(state.cluster, options.nodes)
    return tuple(dict.fromkeys(state.nodes[name] for name in names))


def _mask(state: State, rows: Sequence[int]) -> Bools:
    return np.isin(np.arange(len(state.group)), rows)


def restore(state: State, options: MaintainOptions, found: Mapping[str, Any]) -> MaintenancePlan:
    """Make a plan again from its description. Raises DataError."""
    rows = state.rows_by_name()
    open_everywhere = np.zeros(len(state.group), np.bool_)
    after, moved = state.copy(), []
    for move in found["steps"]:
        index = rows[move["instance"]]
        parts = [
            MovePart(Operation(operation), NOWHERE if node is None else state.nodes[node])
            for operation, node in move["parts"]
        ]
        why = follow(after, index, parts, open_everywhere, options.placement)
        if why is not None:
            raise DataError(f"the plan moves instance {move['instance']}, but {why}")
        together = bool(move.get("with_next"))
        moved.append(Move(index, tuple(parts), after.nodes_of(index), with_next=together))
    nodes = tuple(state.nodes[name] for name in found["nodes"])
    if options.action == "start":
        after = emptying.closed(after, _mask(state, nodes))
    staying, refused = (
        tuple((rows[name], str(why)) for name, why in found[kind].items()) for kind in ("staying", "refused")
    )
    return MaintenancePlan(
        state,
        options,
        Emptying(tuple(moved), after, staying, refused),
        nodes,
        tuple(state.nodes[name] for name in found["drained"]),
        frozenset(map(str, found["lost"])),
        tuple(rows[name] for name in found["forgotten"]),
    )


HMAINTAIN = Tool("hmaintain", MaintainOptions, state_of, plan, restore)
