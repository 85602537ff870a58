"""``harep``: repairs instances whose nodes are offline (``harep(1)``)."""

import time
import uuid
from collections import Counter
from functools import partial
from typing import Any, NamedTuple

import trio

from ganeti_htools.backends import luxi
from ganeti_htools.cli.cluster import make_state
from ganeti_htools.cli.terminal.messages import warn
from ganeti_htools.cli.terminal.program import execute, print_json, printer
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.programs import HAREP
from ganeti_htools.engine.repair.authorisation import Allowed, Suspended
from ganeti_htools.engine.repair.damage import RepairScope
from ganeti_htools.engine.repair.records import RepairType
from ganeti_htools.engine.repair.states import Condition, RepairState
from ganeti_htools.execution.repairs import PROGRAM, Repairs
from ganeti_htools.luxi import opcodes, queries
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.luxi.opcodes import Signature
from ganeti_htools.model.errors import during
from ganeti_htools.planning.repair.needs import RepairNeed, repair_needs, work_of
from ganeti_htools.sources.source import warn_of_silent
from ganeti_htools.version import title

_RULE = "---------------------"


def run(line: CommandLine) -> None:
    """Follow repairs that have begun, begin those that are needed and allowed, and count the states.

    Raises HtoolsError.
    """
    steps = trio.run(_run, line)
    counts = dict(sorted(Counter(step.state.condition.value for step in steps).items()))
    if line.json:
        print_json({"instances": [step.to_json() for step in steps], "counts": counts})
        return
    print(_RULE, "Instance status count", _RULE, sep="\n")
    for condition, count in counts.items():
        print(f"{condition}: {count}")


class _Step(NamedTuple):
    """An instance and its state after the run. ``reason`` is why a repair that it needs did not begin."""

    need: RepairNeed
    state: RepairState
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        repair, damage = self.state.repair, self.need.damage
        return {
            "name": self.need.name,
            "state": self.state.condition.value,
            "needs": damage and damage.repair.value,
            "reason": self.reason,
            "tag": repair and repair.tag,
            "jobs": repair.jobs if repair else (),
        }


async def _run(line: CommandLine) -> list[_Step]:
    say = printer(line)
    async with LuxiClient(line.luxi or queries.default_socket()) as ganeti:
        with during("failed to load data, aborting"):
            answers = await queries.whole_cluster(ganeti)
            cluster = luxi.parse_with_silent_nodes(answers)
        warn_of_silent(cluster, warn)
        make_state(cluster, line)  # warns of inconsistent figures
        with during("when parsing auto-repair tags"):
            scope = RepairScope(line.migrate_drained, line.shared)
            found = repair_needs(cluster, time.time(), scope)
        repairs = Repairs(ganeti, _signature(line), time.time_ns, say, _away, line.dry_run)
        followed = [(need, await repairs.follow(need.name, need.state)) for need in found]
        delay = line.job_delay
        return [await _begin(repairs, need, state, cluster.iallocator, delay) for need, state in followed]


async def _begin(
    repairs: Repairs, need: RepairNeed, state: RepairState, iallocator: str, delay: float
) -> _Step:
    """Begin the repair that an instance needs, if nothing forbids it."""
    name, damage = need.name, need.damage
    if damage is None or state.condition is not Condition.HEALTHY:
        return _Step(need, state)
    kind, reason = damage.repair, damage.obstacle
    if reason is None:
        match need.authorisation:
            case Allowed() as allowed if not allowed.permits(kind):
                reason = f"only repairs up to {_title(allowed.up_to)} are allowed"
                repairs.say(f"Not performing a repair of type {_title(kind)} on {name} because {reason}")
                return _Step(need, await repairs.refuse(name, state, kind), reason)
            case Allowed():
                repairs.say(f"Executing {_title(kind)} repair on {name}")
                work = [opcode for opcode, _ in work_of(damage, name, iallocator)]
                # The job locks the instance: its record is written during the delay.
                waiting = [opcodes.delay(delay)] if delay > 0 else []
                return _Step(need, await repairs.begin(name, state, kind, [*waiting, *work]))
            case Suspended(until):
                end = "Forever" if until is None else f"(Until {_moment(until)})"
                reason = f"it's in state ArSuspended {end}"
            case None:
                reason = "it's in state ArNotEnabled"
    repairs.say(f"Not repairing {name} because {reason}")
    return _Step(need, state, reason)


def _title(kind: RepairType) -> str:
    return "Ar" + kind.value.title().replace("-", "")


def _moment(seconds: int) -> str:
    """Describe a time as Ganeti's harep does."""
    try:
        return time.strftime("%a %b %e %H:%M:%S %Z %Y", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):  # no clock reaches that time
        return str(seconds)


def _signature(line: CommandLine) -> Signature:
    called = title(PROGRAM)
    reason = f"{called} called" if line.reason is None else line.reason
    return Signature(PROGRAM, reason, f"automated repairs by {called}", uuid.uuid4().hex[:12])


async def _away(reason: str | None) -> None:
    warn(reason or "Ganeti answers again")


main = partial(execute, HAREP, run)
