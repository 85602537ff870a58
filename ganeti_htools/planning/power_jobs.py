"""The jobs that power nodes down and up (``hsqueeze(1)``), in the order that Ganeti wants.

A node is powered off while it is offline, and goes online when it is powered on (``LUOobCommand`` and
``LUNodeSetParams``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ganeti_htools.execution.jobs import Job, Verdict
from ganeti_htools.luxi import opcodes
from ganeti_htools.model.tags import STANDBY_AUTO, standby

# The tags of nodes, by their names.
Tags = Mapping[str, Sequence[str]]

_NORMAL, _UNAVAILABLE = 0, 3  # Ganeti's result states; 2 is for a program that failed


def drain(node: str) -> Job:
    """Let nothing new come to a node. Only if Ganeti asks for it others become master candidates."""
    job = Job(
        f"drain {node}",
        (opcodes.set_node(node, "drained", True),),
        (f"gnt-node modify --drained yes {node}",),
        nodes=(node,),
        standing="drained",
        undo=undrain(node),
    )
    promoting = replace(
        job,
        opcodes=(opcodes.set_node(node, "drained", True, auto_promote=True),),
        commands=(f"gnt-node modify --auto-promote --drained yes {node}",),
    )
    return replace(job, again=lambda error: promoting if "Not enough master candidates" in error else None)


def undrain(node: str) -> Job:
    """Let instances come to a node again."""
    return Job(
        f"undrain {node}",
        (opcodes.set_node(node, "drained", False),),
        (f"gnt-node modify --drained no {node}",),
        nodes=(node,),
        standing="online, not drained any more",
    )


def down(tags: Tags) -> list[list[Job]]:
    """Tag the empty nodes that have no such tag, mark all offline, and power them off."""
    marked = [
        Job(
            f"tag {node}",
            (opcodes.tag_node(node, [STANDBY_AUTO]),),
            (f"gnt-node add-tags {node} {STANDBY_AUTO}",),
            nodes=(node,),
            standing="drained, empty and tagged",
            undo=undrain(node),
        )
        for node, held in tags.items()
        if not standby(held)
    ]
    offline = [
        Job(
            f"mark {node} offline",
            (opcodes.set_node(node, "offline", True),),
            (f"gnt-node modify --offline yes {node}",),
            nodes=(node,),
            standing="offline, not powered off",
        )
        for node in tags
    ]
    return [marked, offline, [_power(list(tags), False)]]


def up(tags: Tags) -> list[list[Job]]:
    """Power nodes on, mark them online once their node daemons answer, and take the tag that is ours."""
    online = [_online(node) for node in tags]
    unmarked = [
        Job(
            f"untag {node}",
            (opcodes.untag_node(node, [STANDBY_AUTO]),),
            (f"gnt-node remove-tags {node} {STANDBY_AUTO}",),
            nodes=(node,),
            standing="online",
        )
        for node, held in tags.items()
        if STANDBY_AUTO in held
    ]
    if not tags:
        return []
    return [[_power(list(tags), True)], online, unmarked]


def _online(node: str) -> Job:
    """Ganeti refuses as long as the node's daemon does not answer, so this is tried again and again."""
    job = Job(
        f"mark {node} online",
        (opcodes.set_node(node, "offline", False),),
        (f"gnt-node modify --offline no {node}",),
        nodes=(node,),
        standing="online",
    )
    known: list[Job] = []  # the job itself, which counts its trials

    def again(error: str) -> Job | None:
        return known[0] if "fails to report its version" in error else None

    known.append(replace(job, again=again))
    return known[0]


def _power(nodes: Sequence[str], on: bool) -> Job:
    word = "on" if on else "off"
    return Job(
        f"power {word} {', '.join(nodes)}",
        (opcodes.power(nodes, on),),
        tuple(f"gnt-node power -f {word} {node}" for node in nodes),
        nodes=tuple(nodes),
        standing="powered on, still offline" if on else "offline and powered off",
        judge=judged,
    )


def judged(results: Any) -> Verdict:
    """What comes of an out-of-band command: its job ends well even if the programs failed, or if there are
    none.
    """
    try:
        told = {name: state for (_, name), (state, _) in results[0]}
    except (TypeError, ValueError, LookupError):
        return Verdict("Ganeti does not tell what the out-of-band programs did")
    failed = sorted(name for name, state in told.items() if state not in (_NORMAL, _UNAVAILABLE))
    missing = sorted(name for name, state in told.items() if state == _UNAVAILABLE)
    error = f"the out-of-band program failed for {', '.join(failed)}" if failed else None
    note = f"no out-of-band program for {', '.join(missing)}: the power is left as it is" if missing else None
    return Verdict(error, note)
