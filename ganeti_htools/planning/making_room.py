"""Plans of ``hail --make-room``: moves after which a new instance has a place (``hail(1)``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ganeti_htools.backends import iallocator
from ganeti_htools.engine import making_room
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.recheck import obstacle
from ganeti_htools.engine.making_room import MadeRoom, RoomLimits
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import NOWHERE, sorted_unique
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.ignored_tags import request_without_ignored
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import Allocate
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import counted
from ganeti_htools.planning import steps, view
from ganeti_htools.planning.jobsets import Names, PlannedMove, cost_of, jobs_of, jobsets
from ganeti_htools.planning.plan import Progress, Tool, ToolOptions, ToolPlan
from ganeti_htools.planning.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeRoomOptions(ToolOptions):
    """Options of a plan that makes room.

    * ``request``: the part ``request`` of an iallocator request of type allocate, as JSON.
    * ``max_moves``, ``max_copy`` (MiB): limits; negative for the usual number of moves, and for any size.
    * ``check_redundancy``, ``accept_existing``, ``ignore_soft_errors``, ``restrict_to``: as
      :class:`.PlacementOptions` has them; no names do not restrict.
    """

    request: str = ""
    max_moves: int = -1
    max_copy: int = -1
    check_redundancy: bool = True
    accept_existing: bool = False
    ignore_soft_errors: bool = False
    restrict_to: tuple[str, ...] = ()

    @property
    def placement(self) -> PlacementOptions:
        """The constraints on the place of the new instance."""
        return PlacementOptions(
            capacity=self.check_redundancy,
            accept_existing=self.accept_existing,
            ignore_soft_errors=self.ignore_soft_errors,
            restrict_to=self.restrict_to or None,
        )


@dataclass(frozen=True)
class RoomPlan(ToolPlan[MakeRoomOptions]):
    """The moves that make room for the instance of a request."""

    request: Allocate
    room: MadeRoom

    @property
    def instance(self) -> str:
        return self.request.placement.instance.name

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes that the new instance gets; empty if there is no room."""
        return self.state.names(self.room.placed.nodes) if self.room.placed else []

    @cached_property
    def moves(self) -> Sequence[PlannedMove]:
        return list(map(Names(self.state).move, self.room.steps))

    @property
    def purpose(self) -> str:
        return f"making room for {self.instance}"

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups of the moves and of the new instance."""
        nodes = [node for step in self.room.steps for node in step.nodes]
        nodes += self.room.placed.nodes if self.room.placed else ()
        rows = sorted_unique(self.state.group[nodes]).tolist()
        return tuple(self.state.cluster.groups[row].name for row in rows)

    def score(self) -> dict[str, float]:
        """Compute the scores of the cluster before and after the moves, without the new instance."""
        return {
            "before": score_of(self.state, self.state.everywhere),
            "after": score_of(self.room.after, self.state.everywhere),
        }

    def cost(self) -> dict[str, Any]:
        return cost_of(jobsets(self.moves))

    def describe(self) -> dict[str, Any]:
        return {
            "instance": self.instance,
            "refusal": self.room.refusal or None,
            "steps": [
                {**step, "mib": move.disk + move.memory, "commands": list(move.commands)}
                for step, move in zip(
                    steps.to_json(move.step for move in self.moves), self.moves, strict=True
                )
            ],
            "nodes": self.nodes,
            "mib": self.room.volume,
            "search_ended": self.room.ended,
            "at_least": self.room.at_least,
            "why": self.why_not,
        }

    @property
    def why_not(self) -> str | None:
        """The reason why there is no room, also after moves; None if there is."""
        room, limits = self.room, limits_of(self.options)
        if room.placed is not None:
            return None
        if room.hopeless:
            return "no moves make room for it"
        copied = "" if limits.copy < 0 else f" that copy at most {limits.copy} MiB"
        if room.ended:
            tried = f"found no room: the search ended after {making_room.PATIENCE} tries"
            none = f"; no plan of at most {counted(room.searched, 'move')}{copied} makes any"
            return tried + (none if room.searched else "")
        return f"no plan of at most {counted(room.searched, 'move')}{copied} makes room for it"

    def jobs(self) -> Jobsets:
        """Make the jobs of the moves, which claim the place of the new instance."""
        row = self.request.placement.instance
        primary, secondary = (*self.nodes, None)[:2] if self.nodes else ("", None)
        row = replace(row, pnode=primary or "", snode=secondary)
        sets = jobs_of(jobsets(self.moves))
        return [[replace(job, room=row) for job in jobs] for jobs in sets]

    def present_state(self, cluster: Cluster) -> State:
        """Derive the state of the present cluster, with the storage units of the new instance."""
        return state_of(cluster, self.options)

    def obstacle(self, state: State, rest: Jobsets) -> str | None:
        """Make the remaining moves on a copy of the state: the new instance finds its place afterwards."""
        placement, name, after = self.options.placement, self.instance, state.copy()
        movable, jobs = view.movable(state, self.options.view), [job for jobs in rest for job in jobs]
        homes = {
            row.name: int(group)
            for row, group in zip(state.cluster.instances, state.group[state.pnode], strict=True)
        }
        for step in (job.step for job in jobs):
            if step is not None:
                scope = state.group == homes.get(step.instance, NOWHERE)
                why = obstacle(after, scope, [step], making_room.balancing(placement), movable)
                if why is not None:
                    return why
        if name in homes:
            return f"instance {name} exists already"
        row = jobs[-1].room
        assert row is not None
        nodes = tuple(filter(None, (row.pnode, row.snode)))
        if making_room.placed(after, self.request, replace(placement, restrict_to=nodes)) is None:
            return f"instance {name} would not fit on {', '.join(nodes)} after the remaining moves"
        return None

    def replan(self, state: State, _rest: Jobsets, made: int, progress: Progress) -> "RoomPlan":
        left = max(0, limits_of(self.options).most_moves - made)
        return plan(state, replace(self.options, max_moves=left), progress)


def options_of(
    placement: PlacementOptions, max_moves: int, max_copy: int, request: str = ""
) -> MakeRoomOptions:
    """Return the options of a plan with the constraints of a decision."""
    return MakeRoomOptions(
        view=View(static_kvm_node_memory=placement.static_kvm_node_memory),
        request=request,
        max_moves=max_moves,
        max_copy=max_copy,
        check_redundancy=placement.capacity,
        accept_existing=placement.accept_existing,
        ignore_soft_errors=placement.ignore_soft_errors,
        restrict_to=placement.restrict_to or (),
    )


def limits_of(options: MakeRoomOptions) -> RoomLimits:
    return RoomLimits(options.max_moves, options.max_copy)


def request_of(options: MakeRoomOptions, cluster: Cluster) -> Allocate:
    """Parse the request for a cluster. Raises DataError."""
    request = request_without_ignored(iallocator.read_allocation(options.request), cluster.tags)
    assert isinstance(request, Allocate)
    return request


def state_of(cluster: Cluster, options: MakeRoomOptions) -> State:
    """Derive the state of the cluster, with the storage units of the new instance. Raises HtoolsError."""
    return view.state_of(cluster, options.view, asked=(request_of(options, cluster).placement.instance,))


def find(state: State, request: Allocate, options: MakeRoomOptions, progress: Progress) -> RoomPlan:
    """Find the moves for a request, perhaps none. Raises RequestFailed for an instance that exists."""
    name = request.placement.instance.name
    if any(name == row.name for row in state.cluster.instances):
        raise RequestFailed(f"instance {name} exists already; room is made for new instances only")
    movable = view.movable(state, options.view)
    limits = limits_of(options)
    room = making_room.make_room(state, request, options.placement, limits, movable, progress)
    return RoomPlan(state, options, request, room)


def plan(state: State, options: MakeRoomOptions, progress: Progress) -> RoomPlan:
    """Plan for a state. Raises RequestFailed if no moves make room; HtoolsError for unknown names."""
    found = find(state, request_of(options, state.cluster), options, progress)
    if found.why_not is not None:
        raise RequestFailed(f"{found.instance}: {found.why_not}")
    return found


def restore(state: State, options: MakeRoomOptions, found: Mapping[str, Any]) -> RoomPlan:
    """Make a plan again from its description. Raises DataError."""
    request, after = request_of(options, state.cluster), state.copy()
    made = tuple(steps.retrace(after, view.movable(state, options.view), found["steps"]))
    refusal, volume, ended = found["refusal"] or "", int(found["mib"]), bool(found["search_ended"])
    placed = making_room.placed(after, request, options.placement)
    room = MadeRoom(refusal, after, made, placed, volume, int(found.get("at_least", 1)) - 1, ended)
    return RoomPlan(state, options, request, room)


MAKE_ROOM = Tool("hail", MakeRoomOptions, state_of, plan, restore)
