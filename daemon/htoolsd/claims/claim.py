"""A promise that lives, and when it ends. Pure functions; times are those of trio's clock.

Ganeti's job is there before the decision is asked for, and has not ended when it has got it: from then on
the unfinished jobs of the queue tell whether somebody still carries it out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.types import Status
from ganeti_htools.planning.promises import Promise
from htoolsd.sync.queue import Opcode, Work

_CREATING = frozenset({"OP_INSTANCE_CREATE", "OP_INSTANCE_MULTI_ALLOC"})
_MOVING = frozenset(
    f"OP_INSTANCE_{name}"
    for name in ("FAILOVER", "MIGRATE", "REPLACE_DISKS", "RECREATE_DISKS", "CHANGE_GROUP", "SET_PARAMS")
)
_OF_MANY = frozenset({"OP_NODE_EVACUATE", "OP_GROUP_EVACUATE"})  # without telling of which instances

Claimant = Literal["job", "hand"]  # who asked: a job of Ganeti, or somebody at a shell


@dataclass(frozen=True, slots=True)
class Claim:
    """A promise that lives since it was ``made``, until it ``expires`` at the latest.

    ``looked`` is the last look at the queue, ``seen`` whether at any look a job was there to carry it out.
    """

    promise: Promise
    made: float
    expires: float
    claimant: Claimant
    looked: float
    seen: bool = False


def made(promise: Promise, now: float, seconds: float, claimant: Claimant) -> Claim:
    """A claim made now that lives for so many seconds, not counting those in which its job lives."""
    return Claim(promise, now, now + seconds, claimant, now)


def after_look(claim: Claim, work: Work) -> Claim | None:
    """A claim after a look at what jobs are to do; None if it has ended.

    A job that only asks (a dry run) is none that carries it out.
    """
    if work.asked <= claim.made:
        return claim
    if any(_carries_out(opcode, claim.promise) for job in work.opcodes.values() for opcode in job):
        waited = work.asked - claim.looked
        return replace(claim, seen=True, looked=work.asked, expires=claim.expires + waited)
    if claim.seen or claim.claimant == "job":
        return None
    return replace(claim, looked=work.asked)


def kept(promise: Promise, row: Instance) -> bool:
    """Whether a promise is kept by the instance as it is: nothing is to be had any more."""
    if promise.new:
        return row.status is not Status.DOWN
    return (row.pnode, row.snode) == (promise.row.pnode, promise.row.snode)


def _carries_out(opcode: Opcode, promise: Promise) -> bool:
    kind = opcode.get("OP_ID")
    if opcode.get("dry_run") or kind not in (_CREATING if promise.new else _MOVING | _OF_MANY):
        return False
    return kind in _OF_MANY or any(_is(name, promise.name) for name in _named(opcode))


def _named(opcode: Opcode) -> Iterator[object]:
    """The instances that an opcode names."""
    yield opcode.get("instance_name")
    for each in opcode.get("instances") or ():
        if isinstance(each, dict):
            yield each.get("instance_name")


def _is(name: object, instance: str) -> bool:
    """Whether a name, perhaps without its domain, is that of an instance."""
    return isinstance(name, str) and bool(name) and (name == instance or instance.startswith(f"{name}."))
