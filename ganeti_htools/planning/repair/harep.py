"""Plans of repairs (``harep(1)``). Each repair is one job, which also keeps the record of the repair.

The job records a failure before it begins and a success at its end. So nobody has to follow it: a repair that
is going on, has failed or was cut off is left alone by every harep.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import dropwhile
from math import nan
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from ganeti_htools.engine.allocation.move_parts import carry_out
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.decide import decide
from ganeti_htools.engine.repair.authorisation import Allowed, Suspended
from ganeti_htools.engine.repair.damage import Damage, RepairScope
from ganeti_htools.engine.repair.records import Outcome, Repair, RepairType
from ganeti_htools.engine.repair.states import Condition
from ganeti_htools.execution.jobs import Job, Jobsets
from ganeti_htools.execution.work import opcodes_and_commands, tag_instance, untag_instance
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.errors import DataError, RequestFailed
from ganeti_htools.model.moves import MoveKind, MovePart, NamedMove, Operation
from ganeti_htools.model.state import State
from ganeti_htools.planning import view
from ganeti_htools.planning.plan import UNEXPECTED, Progress, Tool, ToolOptions, ToolPlan
from ganeti_htools.planning.repair.needs import RepairNeed, repair_needs, request_of, work_of

_MOVES = (RepairType.FAILOVER, RepairType.MIGRATE)  # quick, and instances that are down wait for them


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOptions(ToolOptions):
    """Options of a plan of repairs.

    * ``now``: the time of records, and at which suspensions are judged (seconds of the epoch).
    * ``group``: name of the node group whose instances are repaired; None for all.
    * ``migrate_drained``, ``shared``: see :class:`.RepairScope`.
    * ``most``: most repairs; negative for no limit.
    """

    now: int = 0
    group: str | None = None
    migrate_drained: bool = False
    shared: bool = False
    most: int = -1


@dataclass(frozen=True, slots=True)
class PlannedRepair:
    """A repair that may begin."""

    need: RepairNeed
    damage: Damage
    job: Job

    @property
    def title(self) -> str:
        """The repair and its instance."""
        return f"{self.damage.repair.value} of {self.need.name}"

    @property
    def urgent(self) -> bool:
        """Whether it comes before others."""
        return self.damage.repair in _MOVES

    @property
    def disk_mib(self) -> int:
        """MiB of disk that are copied."""
        return self.need.row.dsk if self.damage.repair is RepairType.FIX_STORAGE else 0

    @property
    def memory_mib(self) -> int:
        """MiB of memory that are copied."""
        return self.need.row.mem if self.damage.repair is RepairType.MIGRATE else 0


@dataclass(frozen=True)
class RepairPlan(ToolPlan[RepairOptions]):
    """Repairs in their order; ``refused`` has why others do not begin, by instance."""

    repairs: tuple[PlannedRepair, ...]
    refused: Mapping[str, str]

    @property
    def purpose(self) -> str:
        return "repairs"

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the node groups whose instances are repaired."""
        group = self.options.group
        return (group,) if group else tuple(each.name for each in self.state.cluster.groups)

    def score(self) -> dict[str, float]:
        """Compute the score before. That after is unknown: the iallocator chooses nodes."""
        return {"before": score_of(self.state, self.state.everywhere), "after": nan}

    def cost(self) -> dict[str, Any]:
        kinds = [each.damage.repair for each in self.repairs]
        return {
            "moves": {kind.value: kinds.count(kind) for kind in RepairType if kind in kinds},
            "disk_mib": sum(each.disk_mib for each in self.repairs),
            "memory_mib": sum(each.memory_mib for each in self.repairs),
            "jobsets": len(self.repairs),
        }

    def describe(self) -> dict[str, Any]:
        return {
            "steps": [
                {"instance": each.need.name, "repair": each.damage.repair.value} for each in self.repairs
            ],
            "refused": dict(self.refused),
        }

    def jobs(self) -> Jobsets:
        return [[each.job] for each in self.repairs]

    def obstacle(self, state: State, rest: Jobsets) -> str | None:
        """Return why the next repair is not needed, not allowed, or less urgent than another."""
        return _obstacle(self._now(state), rest[0][0])

    def replan(self, state: State, _rest: Jobsets, _made: int, _progress: Progress) -> "RepairPlan":
        """Plan anew by the same options."""
        return plan(state, self.options)

    def remainder(self, state: State, rest: Jobsets) -> Jobsets | None:
        """Return the jobs from the first repair on that is still needed, unless another is more urgent."""
        now = self._now(state)
        left = list(dropwhile(lambda jobs: _planned(now, jobs[0]) is None, rest))
        return None if left and _obstacle(now, left[0][0]) is not None else left

    def _now(self, state: State) -> "RepairPlan":
        """Plan all repairs that may begin now."""
        return plan(state, replace(self.options, most=-1))


def _obstacle(now: RepairPlan, job: Job) -> str | None:
    """Return why a repair's job is not the next one any more, or None. ``now`` is the present plan."""
    found = _planned(now, job)
    if found is None:
        why = now.refused.get(str(job.opcodes[0]["name"]))
        return f"{job.title}: {why}" if why else f"{job.title} is not needed any more"
    first = now.repairs[0]
    return f"{first.title} is more urgent" if first.urgent > found.urgent else None


def _planned(now: RepairPlan, job: Job) -> PlannedRepair | None:
    return next((each for each in now.repairs if each.job.opcodes == job.opcodes), None)


def state_of(cluster: Cluster, options: RepairOptions) -> State:
    """Derive the state of the cluster. Raises HtoolsError for unknown names."""
    return view.state_of(cluster, options.view)


def plan(state: State, options: RepairOptions, _progress: Progress = lambda _text: None) -> RepairPlan:
    """Plan the repairs that are needed and may begin. Raises HtoolsError for records in conflict."""
    cluster = state.cluster
    group = None if options.group is None else view.group(state, options.group, "unknown node group")
    chosen = view.named_instances(cluster, options.view)
    repairs, refused = list[PlannedRepair](), dict[str, str]()
    scope, after = RepairScope(options.migrate_drained, options.shared), state
    damaged = [(each, each.damage) for each in repair_needs(cluster, options.now, scope) if each.damage]
    for need, damage in sorted(damaged, key=lambda each: _order(each[1])):
        if group not in (None, state.group[state.nodes[need.row.pnode]]):
            continue
        if (why := _refusal(need, damage, *chosen)) is not None:
            refused[need.name] = why
            continue
        try:
            after = _repaired(after, need.row, damage)
        except RequestFailed as error:
            refused[need.name] = f"{damage.repair.value} finds no node: {error}"
        else:
            repairs.append(PlannedRepair(need, damage, _job(need, damage, cluster, options.now)))
    most = options.most if options.most >= 0 else None
    return RepairPlan(state, options, tuple(repairs[:most]), refused)


def _refusal(need: RepairNeed, damage: Damage, selected: set[str], excluded: set[str]) -> str | None:
    """Return why a repair does not begin, or None."""
    if (selected and need.name not in selected) or need.name in excluded:
        return "it is excluded"
    if damage.obstacle is not None:
        return damage.obstacle
    tag = need.state.repair and need.state.repair.tag
    if need.state.condition is Condition.FAILED:
        return f"a repair has failed, or goes on: {tag}"
    if need.state.condition is Condition.PENDING:
        return f"the next run of harep records the end of its last repair: {tag}"
    match need.authorisation:
        case Allowed() as allowed if allowed.permits(damage.repair):
            return None
        case Allowed(up_to):
            return f"it needs {damage.repair.value}, and tags allow repairs up to {up_to.value}"
        case Suspended():
            return "tags suspend its repairs"
    return f"no tag allows {damage.repair.value}"


def _order(damage: Damage) -> tuple[bool, int]:
    """Return the place of a repair: quick ones first, the most destructive ones last."""
    return damage.repair not in _MOVES, damage.repair.risk


def _repaired(state: State, row: Instance, damage: Damage) -> State:
    """Return the state after a repair. Raises RequestFailed if the iallocator finds no nodes for it."""
    request, options = request_of(damage, row), state.cluster.iallocator_options
    if request is not None:
        return decide(state, request, options).state
    asked, state = state.instance(state.cluster.instances.index(row)), state.copy()
    carry_out(state, asked, MovePart(Operation.FAILOVER), options)
    return state


def _job(need: RepairNeed, damage: Damage, cluster: Cluster, now: int) -> Job:
    """Make the job of a repair, with its record, which replaces earlier ones."""
    record = Repair(damage.repair, str(uuid5(NAMESPACE_OID, f"{need.name} {now}")), now)
    failed, succeeded = (record.ended(each, now).tag for each in (Outcome.FAILURE, Outcome.SUCCESS))
    work = opcodes_and_commands(
        tag_instance(need.name, failed),
        *work_of(damage, need.name, cluster.iallocator),
        untag_instance(need.name, failed, *need.state.then(Condition.HEALTHY, record).outdated),
        tag_instance(need.name, succeeded),
    )
    title = f"{need.name}: {damage.repair.value}"
    return Job(title, *work, _move(need, damage), independent=True)


def _move(need: RepairNeed, damage: Damage) -> NamedMove | None:
    """Return the move that a repair makes; None where the iallocator chooses its nodes."""
    primary, secondary = need.row.pnode, need.row.snode
    if damage.repair not in _MOVES or secondary is None:
        return None
    return NamedMove.of(need.name, MoveKind.FAILOVER, None, (primary, secondary), (secondary, primary))


def restore(state: State, options: RepairOptions, found: Mapping[str, Any]) -> RepairPlan:
    """Make a plan again, and compare it with its description. Raises HtoolsError."""
    made = plan(state, options)
    if made.describe() != found:
        raise DataError(UNEXPECTED)
    return made


HAREP = Tool("harep", RepairOptions, state_of, plan, restore)
