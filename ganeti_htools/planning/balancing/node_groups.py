"""Selection and order of the node groups to balance (``hbal(1)``)."""

import math
from collections.abc import Iterable

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.model.columns import Bools, sorted_unique
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State


class NoGroupError(HtoolsError):
    """The node group is unknown or ambiguous. ``title`` says why, ``names`` are the existing groups."""

    def __init__(self, title: str, names: Iterable[str]) -> None:
        self.title, self.names = title, tuple(names)
        super().__init__(f"{title} {', '.join(self.names)}")


def select(state: State, wanted: str | None) -> tuple[str, Bools]:
    """Return name and nodes of the group to balance. Raises NoGroupError."""
    groups = state.cluster.groups
    if wanted is None:
        present = sorted(set(state.group.tolist()))
        if len(present) != 1:
            raise NoGroupError("Found multiple node groups:", (groups[row].name for row in present))
        return groups[present[0]].name, state.everywhere
    rows = [row for row, group in enumerate(groups) if wanted in (group.name, group.uuid)]
    if len(rows) != 1:
        title = f"Node group {wanted} not found. Node group list is:"
        raise NoGroupError(title, (group.name for group in groups))
    return groups[rows[0]].name, state.group == rows[0]


def worst_first(state: State) -> list[tuple[str, Bools]]:
    """Return names and nodes of all groups that have nodes, the worst score first.

    A score that is not a number comes last, for no move improves it. (Ganeti's design "synchronising htools
    to Ganeti 2.3", balancing changes.)
    """
    rows = sorted_unique(state.group).tolist()
    scopes = {row: state.group == row for row in rows}
    scores = {row: score_of(state, scope) for row, scope in scopes.items()}
    rows.sort(key=lambda row: (math.isnan(scores[row]), -scores[row]))
    return [(state.cluster.groups[row].name, scopes[row]) for row in rows]
