"""The jobs of ``hmaintain(1)`` on nodes, and what they add to the jobs of moves.

What was so before is in a tag before it is changed, so whoever finds the node knows what to undo.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from shlex import join, quote
from typing import Any, NamedTuple

from ganeti_htools.execution.jobs import Job, Jobsets, JobVerdict
from ganeti_htools.execution.work import (
    OpcodeAndCommand,
    asks_for_candidates,
    drain_work,
    opcodes_and_commands,
    role,
    tag_instance,
    tag_work,
    untag_instance,
    untag_work,
)
from ganeti_htools.luxi import opcodes
from ganeti_htools.model.cluster import Instance, Node
from ganeti_htools.model.errors import first_names
from ganeti_htools.model.maintenance_tags import (
    DRAINED,
    SET_OFFLINE,
    about_maintenance,
    home_tags,
    rolled_tags,
    run_tag,
)

_IN_USE = "in use as before"


def begin(node: Node, tags: Sequence[str], drain: bool, run: str, promote: bool = False) -> Job:
    """Tag a node, and drain it if wanted, with ``promote`` as :func:`.drain_work`."""

    def retry(error: str) -> Job | None:
        if promote or not asks_for_candidates(error):
            return None
        return begin(replace(node, tags=()), tags, drain, run, promote=True)

    work = _take(node, run, [*tags, *([DRAINED] if drain else [])])
    work += [drain_work(node.name, promote)] if drain else []
    made, title, undo = (
        opcodes_and_commands(*work),
        f"begin maintenance of {node.name}",
        release(node.name, run),
    )
    standing = "in maintenance, drained" if drain else "in maintenance"
    return Job(title, *made, None, (node.name,), standing, _IN_USE, undo, retry=retry)


def release_after_start(node: str, run: str) -> Job:
    """End the work of a run that began maintenance."""
    return replace(release(node, run), title=f"{node} is in maintenance", undo=None)


def set_offline(node: str) -> Job:
    """Set a drained node offline: Ganeti does not ask it any more."""
    work = opcodes_and_commands(tag_work(node, SET_OFFLINE), role(node, "offline", True))
    return Job(f"set {node} offline", *work, None, (node,), "in maintenance, offline")


def set_online(node: str) -> Job:
    """Set a node online again, drained as before. Ganeti refuses while its daemon does not answer."""
    roles = role(node, "offline", False), role(node, "drained", True)
    work = opcodes_and_commands(*roles, untag_work(node, [SET_OFFLINE]))
    return Job(f"set {node} online", *work, None, (node,), "in maintenance, drained")


def reopen(node: Node, drained: bool, run: str, awaited: bool, tags: Sequence[str]) -> Job:
    """Undrain a node if we drained it, once its daemon answers; it still takes no new instances."""
    work = _take(node, run, tags)
    if drained:
        work += [role(node.name, "drained", False), untag_work(node.name, [DRAINED])]
    standing = "still in maintenance, not drained" if drained else "still in maintenance"
    undo, awaits = release(node.name, run), (node.name,) if awaited else ()
    made, title = opcodes_and_commands(*work), f"reopen {node.name}"
    return Job(title, *made, None, (node.name,), standing, "in maintenance", undo, awaits=awaits)


def end(node: Node, drained: bool, run: str) -> Job:
    """Remove all tags of maintenance."""
    gone = {DRAINED} if drained else set[str]()
    tags = [tag for tag in about_maintenance(node.tags) if tag not in gone and not _is_run(tag)]
    work = opcodes_and_commands(untag_work(node.name, [*tags, run_tag(run)]))
    return Job(f"end maintenance of {node.name}", *work, None, (node.name,), "not in maintenance")


def forget_roll(node: Node) -> Job:
    """Remove what a roll has noted about its work on a node."""
    work = opcodes_and_commands(untag_work(node.name, rolled_tags(node.tags)))
    return Job(f"{node.name}: the roll is over", *work)


def with_home(job: Job, tag: str | None) -> Job:
    """Return the job of a move that first notes the instance's home, unless it has one."""
    if tag is None or job.step is None:
        return job
    op, command = tag_instance(job.step.instance, tag)
    return replace(job, opcodes=(op, *job.opcodes), commands=(command, *job.commands))


def without_home(job: Job, row: Instance) -> Job:
    """Return the job of a move home that then forgets the home."""
    op, command = _forget(row)
    return replace(job, opcodes=(*job.opcodes, op), commands=(*job.commands, command))


def forget_home(row: Instance) -> Job:
    """Forget the home of an instance that does not move."""
    return Job(f"{row.name}: forget its home", *opcodes_and_commands(_forget(row)))


def activate(instance: str) -> Job:
    """Connect the mirrors of an instance again, as ganeti-watcher does, and wait for them."""
    command = f"gnt-instance activate-disks --wait-for-sync {quote(instance)}"
    work = opcodes_and_commands((opcodes.activate_disks(instance), command))
    return Job(f"{instance}: activate disks", *work)


def find_volumes(nodes: Sequence[str]) -> Job:
    """Look for volumes that belong to no instance."""
    command = f"gnt-node volumes {join(nodes)}"
    work = opcodes_and_commands((opcodes.query_volumes(nodes), command))
    return Job(f"look for left volumes on {', '.join(nodes)}", *work, judge=judge_volumes)


def judge_volumes(results: Any) -> JobVerdict:
    """Name the volumes that belong to no instance, with the commands that remove them.

    Ganeti's replace-disks fails where its new volumes would have the names of left ones.
    """
    try:
        left = [(node, f"{group}/{name}") for node, group, name, owner in results[-1] if owner == "-"]
    except (TypeError, ValueError, LookupError):
        return JobVerdict(note="Ganeti does not report the volumes")
    ours = [(node, volume) for node, volume in left if ".disk" in volume]
    commands = [removal_of(node, volume) for node, volume in ours]
    return JobVerdict(
        note=f"volumes that belong to no instance; remove them: {'; '.join(commands)}" if ours else None
    )


def removal_of(node: str, volume: str) -> str:
    """Return the command that removes a volume (GROUP/NAME), or all with a tag (@TAG), from a node."""
    return f"ssh {quote(node)} lvremove -f {quote(volume)}"


_LEFT = re.compile(
    r"<LogicalVolume\(/dev/([^\s,]+),.* on node (\S+) for instance (\S+): .*already exists", re.DOTALL
)


class LeftVolume(NamedTuple):
    """A volume (GROUP/NAME) of an earlier time of an instance on a node."""

    volume: str
    node: str
    instance: str

    def removal(self) -> str:
        """Return the command that removes all volumes of the instance from the node, by Ganeti's tag.

        Ganeti creates one after the other, and leaves what it has created when the next is in the way.
        """
        return removal_of(self.node, f"@originstname+{self.instance}")


def left_volume(error: str) -> LeftVolume | None:
    """Return the volume that a job found in the way of a new one; None for other errors."""
    found = _LEFT.search(error)
    return found and LeftVolume(*found.groups())


_IN_SET = 20  # jobs


def in_sets(jobs: Sequence[Job]) -> Jobsets:
    """Sort jobs of instances into jobsets that do not fill Ganeti's queue."""
    return [jobs[start : start + _IN_SET] for start in range(0, len(jobs), _IN_SET)]


def describe(reasons: Mapping[str, str]) -> str:
    """Describe instances and the reasons about them in one line: each reason once."""
    by_reason: dict[str, list[str]] = {}
    for name, why in reasons.items():
        by_reason.setdefault(why, []).append(name)
    return "; ".join(f"{first_names(names)}: {why}" for why, names in by_reason.items())


def _take(node: Node, run: str, tags: Sequence[str]) -> list[OpcodeAndCommand]:
    """Mark a node with a run, in place of the runs that were cut off there."""
    old = [tag for tag in node.tags if _is_run(tag) and tag != run_tag(run)]
    marked = tag_work(node.name, *tags, run_tag(run))
    return [untag_work(node.name, old), marked] if old else [marked]


def _is_run(tag: str) -> bool:
    return tag.startswith(run_tag(""))


def release(node: str, run: str) -> Job:
    """Remove the mark of a run from a node."""
    work = opcodes_and_commands(untag_work(node, [run_tag(run)]))
    return Job(f"leave {node} in maintenance", *work, None, (node,), "in maintenance")


def _forget(row: Instance) -> OpcodeAndCommand:
    return untag_instance(row.name, *home_tags(row.tags))
