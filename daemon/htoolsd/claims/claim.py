"""Claims: promises of decisions as long as they live. Pure functions; times are those of trio's clock.

Ganeti's job exists before it asks for a decision, and is still unfinished when it has the answer. From then
on the unfinished jobs of the queue show whether a job still carries the decision out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from ganeti_htools.deciding.promises import Promise
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.types import Status
from htoolsd.sync.job_queue import Opcode, PendingWork

_CREATING = frozenset({"OP_INSTANCE_CREATE", "OP_INSTANCE_MULTI_ALLOC"})
_MOVING = frozenset(
    f"OP_INSTANCE_{name}"
    for name in ("FAILOVER", "MIGRATE", "REPLACE_DISKS", "RECREATE_DISKS", "CHANGE_GROUP", "SET_PARAMS")
)
_EVACUATING = frozenset({"OP_NODE_EVACUATE", "OP_GROUP_EVACUATE"})  # these do not name instances

Claimant = Literal["job", "hand"]  # a job of Ganeti, or a person at a shell


@dataclass(frozen=True, slots=True)
class Claim:
    """A promise with its lifetime. ``expires`` is put off while a job carries the promise out.

    ``checked`` is the time of the last look at the job queue. ``job_seen``: such a job was once in the queue.
    """

    promise: Promise
    created: float
    expires: float
    claimant: Claimant
    checked: float
    job_seen: bool = False


def new_claim(promise: Promise, now: float, seconds: float, claimant: Claimant) -> Claim:
    """Return a claim that lives for so many seconds, not counting the time in which its job exists."""
    return Claim(promise, now, now + seconds, claimant, now)


def check_claim(claim: Claim, pending: PendingWork) -> Claim | None:
    """Return the claim after a look at the unfinished jobs; None if it has ended.

    A job that only simulates (a dry run) does not carry the claim out.
    """
    if pending.asked <= claim.created:
        return claim
    if any(_carries_out(opcode, claim.promise) for job in pending.opcodes.values() for opcode in job):
        waited = pending.asked - claim.checked
        return replace(claim, job_seen=True, checked=pending.asked, expires=claim.expires + waited)
    if claim.job_seen or claim.claimant == "job":
        return None
    return replace(claim, checked=pending.asked)


def is_fulfilled(promise: Promise, row: Instance) -> bool:
    """Whether the instance already has everything that it was promised."""
    if promise.new:
        return row.status is not Status.DOWN
    return (row.pnode, row.snode) == (promise.row.pnode, promise.row.snode)


def _carries_out(opcode: Opcode, promise: Promise) -> bool:
    kind = opcode.get("OP_ID")
    if opcode.get("dry_run") or kind not in (_CREATING if promise.new else _MOVING | _EVACUATING):
        return False
    return kind in _EVACUATING or any(_is_name_of(name, promise.name) for name in _instance_names(opcode))


def _instance_names(opcode: Opcode) -> Iterator[object]:
    yield opcode.get("instance_name")
    for each in opcode.get("instances") or ():
        if isinstance(each, dict):
            yield each.get("instance_name")


def _is_name_of(name: object, instance: str) -> bool:
    """Whether a name, perhaps without its domain, is that of the instance."""
    return isinstance(name, str) and bool(name) and (name == instance or instance.startswith(f"{name}."))
