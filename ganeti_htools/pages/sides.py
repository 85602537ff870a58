"""A cluster before and after a plan, and the forms of what changes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ganeti_htools.model.cluster import common_suffix
from ganeti_htools.model.state import State
from ganeti_htools.pages.pictures import FULL
from ganeti_htools.planning.groups.health import health_of

_LONGEST = 40  # characters of a name beside a picture; tables have whole names
_NAMED = 12  # names in a cell


class Side(NamedTuple):
    """A cluster before or after a plan: its state, and the health of its groups.

    ``nodes`` are the names of nodes for pictures: cut in the middle, without the domain that all names share.
    """

    state: State
    health: Sequence[Mapping[str, Any]]
    nodes: Sequence[str]

    @classmethod
    def of(cls, state: State) -> "Side":
        suffix = common_suffix(state.cluster)
        names = [short_name(node.name.removesuffix(suffix)) for node in state.cluster.nodes]
        return cls(state, health_of(state), names)

    @property
    def scores(self) -> dict[str, float | None]:
        return {group["name"]: group["score"] for group in self.health}

    @property
    def lost(self) -> set[str]:
        """The instances that would not come back after the loss of their primary."""
        return {name for group in self.health for name in group["unrecoverable"]["instances"]}


def change(ends: Sequence[str]) -> str:
    """Join what was and what is, or name it once if it is the same."""
    return " → ".join(dict.fromkeys(ends))


def figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def percent(share: float) -> str:
    """Format a used share; a sign marks what is nearly full."""
    return f"{'▲ ' * (share >= FULL)}{100 * share:.0f} %"


def short_name(name: str) -> str:
    """Cut the middle of a long name."""
    half = _LONGEST // 2
    return name if len(name) <= _LONGEST else f"{name[:half]}…{name[1 - half :]}"


def some(names: Sequence[str]) -> str:
    """Join the first names, and count the others."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + f" and {more} more" * (more > 0)
