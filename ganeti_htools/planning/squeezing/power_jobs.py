"""The jobs that power nodes down and up (``hsqueeze(1)``), in the order that Ganeti requires.

A node is powered off while it is offline, and marked online after it is powered on (``LUOobCommand`` and
``LUNodeSetParams``). From the first job to the last a node has a tag, by which a later run recognises it
(:mod:`.leftovers`).
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from shlex import quote
from typing import Any

from ganeti_htools.engine.squeezing.power_plan import Action
from ganeti_htools.execution.jobs import Job, Jobsets, JobVerdict
from ganeti_htools.execution.work import (
    asks_for_candidates,
    drain_work,
    opcodes_and_commands,
    role,
    tag_work,
    untag_work,
)
from ganeti_htools.luxi import opcodes
from ganeti_htools.model.cluster import Node
from ganeti_htools.model.tags import SQUEEZING, STANDBY_AUTO, standby
from ganeti_htools.planning.squeezing.leftovers import SqueezeLeftovers, tags_of

_NORMAL, _UNAVAILABLE = 0, 3  # Ganeti's result states; 2 is for a program that failed

_WAIT = 600  # seconds that a script waits for a node daemon
_PAUSE = 15


def drain(node: str, promote: bool = False) -> Job:
    """Drain a node. Other nodes become master candidates only if Ganeti asks for more."""

    def retry(error: str) -> Job | None:
        return drain(node, promote=True) if asks_for_candidates(error) and not promote else None

    work = opcodes_and_commands(tag_work(node, SQUEEZING), drain_work(node, promote))
    otherwise = "online, not drained"
    return Job(f"drain {node}", *work, None, (node,), "drained", otherwise, undrain(node), retry=retry)


def drain_and_empty(nodes: Sequence[str], moves: Jobsets, late: Collection[str]) -> list[Sequence[Job]]:
    """Drain nodes and make the moves that empty them.

    Nodes in ``late`` are drained after the last mirrored instance has left them.
    """
    last = {
        name: place
        for place, jobs in enumerate(moves)
        for job in jobs
        if job.step is not None and len(job.step.was) > 1
        for name in job.step.was
    }
    after = {node: last[node] if node in late and node in last else -1 for node in nodes}
    sets: list[Sequence[Job]] = []
    for place, jobs in enumerate([[], *moves], -1):
        sets += [jobs, [drain(node) for node in nodes if after[node] == place]]
    return sets


def undrain(node: str) -> Job:
    work = opcodes_and_commands(role(node, "drained", False), untag_work(node, [SQUEEZING]))
    return Job(f"undrain {node}", *work, None, (node,), "online, not drained any more")


def power_down_jobs(nodes: Sequence[Node]) -> list[list[Job]]:
    """Tag empty nodes that have no standby tag, mark all offline, and power them off."""
    return [
        [_mark(node.name) for node in nodes if not standby(node.tags)],
        [_offline(node.name) for node in nodes],
        *power_off_jobs(nodes),
    ]


def power_off_jobs(nodes: Sequence[Node]) -> list[list[Job]]:
    """Power offline nodes off; nodes without an out-of-band program stay on."""
    powered = [node.name for node in nodes if node.powered]
    last = [
        untag(node, [SQUEEZING], "offline" if node.powered is None else "offline and powered off")
        for node in nodes
    ]
    return [_power(powered, False), last]


def power_up_jobs(nodes: Sequence[Node]) -> list[list[Job]]:
    """Power nodes on, mark them online once their node daemons answer, and remove our tags."""
    switched = [node.name for node in nodes if node.powered is not None and not _kept_on(node)]
    last = []
    for node in nodes:
        held = {*node.tags, SQUEEZING} if node.name in switched else node.tags
        ours = [tag for tag in (SQUEEZING, STANDBY_AUTO) if tag in held]
        last += [untag(node, ours, "online")] if ours else []
    return [_power(switched, True), [_online(node.name) for node in nodes], last]


def cleanup_jobs(left: SqueezeLeftovers, planned: Collection[str]) -> list[Sequence[Job]]:
    """Finish an interrupted run, except for the nodes that are planned for again."""
    drained, offline, online = (
        [node for node in nodes if node.name not in planned]
        for nodes in (left.drained, left.offline, left.online)
    )
    power, last = power_off_jobs(offline)
    back = [undrain(node.name) for node in drained]
    done = [untag(node, tags_of(node), "online") for node in online]
    return [[*back, *done, *power], last]


def nodes_to_mark(rest: Jobsets, action: Action | None = None) -> list[str]:
    """Return the nodes that jobs will mark offline or online; with an action, only one of these."""
    ops = [op for jobs in rest for job in jobs for op in job.opcodes if "offline" in op]
    wanted = [op for op in ops if action is None or op["offline"] is (action is Action.OFFLINE)]
    return [op["node_name"] for op in wanted]


def node_when_online(node: Node) -> Node:
    tags = tuple(tag for tag in node.tags if tag not in (SQUEEZING, STANDBY_AUTO))
    return replace(node, offline=False, tags=tags, powered=None if node.powered is None else True)


def _kept_on(node: Node) -> bool:
    """Whether an interrupted run has powered the node on, or has not powered it off."""
    return bool(node.powered) and SQUEEZING in node.tags


def untag(node: Node, tags: Sequence[str], standing: str) -> Job:
    """Remove tags, in the last job on a node; ``standing`` describes the node afterwards."""
    work = opcodes_and_commands(untag_work(node.name, tags))
    return Job(f"untag {node.name}", *work, None, (node.name,), standing)


def _mark(node: str) -> Job:
    work = opcodes_and_commands(tag_work(node, STANDBY_AUTO))
    return Job(f"tag {node}", *work, None, (node,), "drained, empty and tagged", undo=undrain(node))


def _offline(node: str) -> Job:
    work = opcodes_and_commands(role(node, "offline", True))
    return Job(f"mark {node} offline", *work, None, (node,), "offline, not powered off")


def _online(node: str) -> Job:
    """Mark a node online. Ganeti refuses until the node daemon answers, so the job is repeated."""

    def retry(error: str) -> Job | None:
        return _online(node) if "fails to report its version" in error else None

    op, command = role(node, "offline", False)
    again = quote(f"until {command}; do sleep {_PAUSE}; done")
    work = opcodes_and_commands((op, f"timeout {_WAIT} sh -c {again}"))
    return Job(
        f"mark {node} online", *work, None, (node,), "online", "still offline", retry=retry, awaits=(node,)
    )


def _power(nodes: Sequence[str], on: bool) -> list[Job]:
    """Power nodes on or off, in one job if there are any."""
    word, standing = ("on", "powered on, still offline") if on else ("off", "offline and powered off")
    tags = [tag_work(node, SQUEEZING) for node in nodes if on]
    ops, commands = opcodes_and_commands(*tags)
    ops = *ops, opcodes.power(nodes, on)
    commands = *commands, *(f"gnt-node power -f {word} {quote(node)}" for node in nodes)
    title, otherwise = f"power {word} {', '.join(nodes)}", f"offline, not powered {word}"
    job = Job(title, ops, commands, None, tuple(nodes), standing, otherwise, judge=judge_power)
    return [job] if nodes else []


def judge_power(results: Any) -> JobVerdict:
    """Judge an out-of-band command, the last of a job.

    Ganeti's job succeeds even if the programs failed, or if there are none.
    """
    try:
        states = {name: state for (_, name), (state, _) in results[-1]}
    except (TypeError, ValueError, LookupError):
        return JobVerdict("Ganeti does not report what the out-of-band programs did")
    failed = sorted(name for name, state in states.items() if state not in (_NORMAL, _UNAVAILABLE))
    missing = sorted(name for name, state in states.items() if state == _UNAVAILABLE)
    error = f"the out-of-band program failed for {', '.join(failed)}" if failed else None
    note = f"no out-of-band program for {', '.join(missing)}: the power is left as it is" if missing else None
    return JobVerdict(error, note, tuple(failed))
