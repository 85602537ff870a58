"""``harep``: repairs instances whose nodes are offline (``harep(1)``)."""

import sys
import time
import uuid
from collections import Counter
from collections.abc import Sequence

import trio

from ganeti_htools.backends import luxi
from ganeti_htools.cli.cluster import make_state
from ganeti_htools.cli.terminal.messages import warn
from ganeti_htools.cli.terminal.program import execute
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.programs import HAREP
from ganeti_htools.engine.repair.authorisation import Allowed, Suspended
from ganeti_htools.engine.repair.records import RepairType
from ganeti_htools.engine.repair.states import Condition, RepairState
from ganeti_htools.execution.repairs import PROGRAM, Repairs
from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.luxi.opcodes import Signature
from ganeti_htools.model.errors import during
from ganeti_htools.planning.repairs import RepairNeed, iallocator_of, job_of, repair_needs
from ganeti_htools.version import title

_RULE = "---------------------"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; its exit status."""
    return execute(HAREP, run, argv)


def run(line: CommandLine) -> None:
    """Follow repairs that have begun, begin those that are needed and allowed, and count the states.

    Raises HtoolsError.
    """
    states = trio.run(_run, line)
    counts = Counter(state.condition.value for state in states)
    _say(_RULE, "Instance status count", _RULE)
    for condition, count in sorted(counts.items()):
        _say(f"{condition}: {count}")


async def _run(line: CommandLine) -> list[RepairState]:
    """Return the states of all instances afterwards."""
    async with LuxiClient(line.luxi or queries.default_socket()) as ganeti:
        with during("failed to load data, aborting"):
            answers = await queries.whole_cluster(ganeti)
            cluster = luxi.parse(answers)
        make_state(cluster, line)  # warns of inconsistent figures
        with during("when parsing auto-repair tags"):
            found = repair_needs(cluster, time.time())
        repairs = Repairs(ganeti, _signature(line), time.time_ns, _say, _away, line.dry_run)
        followed = [(need, await repairs.follow(need.name, need.state)) for need in found]
        iallocator = iallocator_of(answers.info)
        return [await _treat(repairs, need, state, iallocator, line) for need, state in followed]


async def _treat(
    repairs: Repairs, need: RepairNeed, state: RepairState, iallocator: str, line: CommandLine
) -> RepairState:
    """Begin the repair that an instance needs, if nothing forbids it. Returns the state afterwards."""
    name, needs = need.name, need.repair
    if needs is None or state.condition is not Condition.HEALTHY:
        return state
    if need.maintenance is not None:
        _say(f"Not repairing {name} because node {need.maintenance} is in maintenance")
        return state
    match need.authorisation:
        case Allowed(up_to) if needs.risk > up_to.risk:
            _say(
                f"Not performing a repair of type {_title(needs)} on {name}"
                f" because only repairs up to {_title(up_to)} are allowed"
            )
            return await repairs.refuse(name, state, needs)
        case Allowed():
            _say(f"Executing {_title(needs)} repair on {name}")
            return await repairs.begin(name, state, needs, job_of(needs, name, iallocator, line.job_delay))
        case Suspended(until):
            end = "Forever" if until is None else f"(Until {_moment(until)})"
            _say(f"Not repairing {name} because it's in state ArSuspended {end}")
        case None:
            _say(f"Not repairing {name} because it's in state ArNotEnabled")
    return state


def _title(kind: RepairType) -> str:
    """Return the name of a repair in Ganeti's messages."""
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


def _say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)


async def _away(reason: str | None) -> None:
    warn(reason or "Ganeti answers again")


if __name__ == "__main__":
    sys.exit(main())
