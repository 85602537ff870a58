"""Diagnosis of a node group (Ganeti's design "Synchronising htools to Ganeti 2.3", "Redistribution")."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.redundancy.health import bad_nodes
from ganeti_htools.engine.redundancy.recoverability import nodes_of_unrecoverable
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import shorten_names


@dataclass(frozen=True, slots=True)
class GroupDiagnosis:
    """Faults of a node group, as rows of nodes and instances. Forthcoming instances do not count.

    ``stranded`` are instances with an offline node, primaries first. ``failing`` are online nodes that fail
    N+1, ``pressing`` the instances on them, secondaries first. ``fragile`` nodes cannot be lost with all
    their instances recovered. ``between`` are primaries whose secondary is in another group, left by an
    interrupted change of group. ``unrecoverable`` are all instances that would not come back after the loss
    of their primary, also those of offline nodes. ``conflicting`` nodes have primaries that exclude each
    other, forthcoming ones included, as ``hcheck(1)`` counts them.
    """

    stranded: tuple[int, ...]
    failing: tuple[int, ...]
    pressing: tuple[int, ...]
    fragile: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    unrecoverable: tuple[int, ...] = ()
    conflicting: tuple[int, ...] = ()

    @property
    def word(self) -> str:
        """The health of the group in one or two words: the one notion of health, in all programs."""
        if self.stranded:
            return "unhealthy"
        if self.failing:
            return "weakly unhealthy"
        if self.fragile:
            return "not redundant"
        return "conflicting" if self.conflicting else "healthy"

    @property
    def good(self) -> bool:
        """Whether nothing needs the repair of ``hregroup(1)``."""
        return not self.stranded and not self.failing

    @property
    def rank(self) -> tuple[int, int]:
        """The severity; a larger rank is worse."""
        return len(self.stranded), len(self.failing)

    def worse_than(self, other: "GroupDiagnosis") -> bool:
        """Whether this diagnosis has a fault that the other lacks."""
        return any(
            set(mine) - set(theirs)
            for mine, theirs in (
                (self.stranded, other.stranded),
                (self.failing, other.failing),
                (self.fragile, other.fragile),
            )
        )


def diagnose(state: State, scope: Bools, lost: Bools | None = None) -> GroupDiagnosis:
    """Diagnose the group in scope; ``lost`` marks its instances that are :func:`.unrecoverable`.

    Without ``lost``, redundancy is not diagnosed.
    """
    lost = np.zeros_like(state.forthcoming) if lost is None else lost
    offline, bad = scope & state.columns.offline, bad_nodes(state, scope)
    stranded = _instances(state, offline, state.pnode) + _instances(state, offline, state.snode)
    pressing = _instances(state, bad, state.snode) + _instances(state, bad, state.pnode)
    apart = scope[state.pnode] & (state.snode != NOWHERE) & ~scope[state.snode] & ~state.forthcoming
    return GroupDiagnosis(
        tuple(dict.fromkeys(stranded)),
        _rows(bad),
        tuple(dict.fromkeys(pressing)),
        _rows(nodes_of_unrecoverable(state, scope, lost)),
        _rows(apart),
        _rows(lost),
        _rows(scope & (state.columns.conflicts > 0)),
    )


def reasons(state: State, found: GroupDiagnosis) -> Iterator[str]:
    """Yield a line for each kind of fault."""
    names = [row.name for row in state.cluster.instances]
    if found.stranded:
        yield f"offline nodes still have {shorten_names([names[row] for row in found.stranded])}"
    if found.failing:
        nodes, verb = (
            shorten_names(state.names(found.failing)),
            "fails" if len(found.failing) == 1 else "fail",
        )
        yield f"{nodes} {verb} N+1, with {shorten_names([names[row] for row in found.pressing])}"
    if found.fragile:
        yield f"{shorten_names(state.names(found.fragile))} cannot fail without loss"
    if found.conflicting:
        verb, tags = ("has" if len(found.conflicting) == 1 else "have", shared_tags(state, found.conflicting))
        nodes = shorten_names(state.names(found.conflicting))
        yield f"{nodes} {verb} instances with the same exclusion tag ({shorten_names(tags)})"
    if found.between:
        verb = "has its" if len(found.between) == 1 else "have their"
        yield f"{shorten_names([names[row] for row in found.between])} {verb} secondary in another group"


def shared_tags(state: State, nodes: Sequence[int]) -> list[str]:
    """Return the exclusion tags that several primaries of one of the nodes (rows) have."""
    counts = state.tag_counts[:, list(nodes)]
    return [tag for tag, row in state.tag_rows.items() if (counts[row] > 1).any()]


def _rows(which: Bools) -> tuple[int, ...]:
    return tuple(np.flatnonzero(which).tolist())


def _instances(state: State, nodes: Bools, place: Ints) -> list[int]:
    if not nodes.any():
        return []
    there = (place != NOWHERE) & nodes[place] & ~state.forthcoming
    rows: list[int] = np.flatnonzero(there).tolist()
    return rows
