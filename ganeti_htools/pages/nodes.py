"""The section of a page about nodes: those that a plan changes, or that need a look, before all others."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ganeti_htools.model.columns import Bools, Floats, Ints
from ganeti_htools.model.node_state import NodeState
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import counted, size
from ganeti_htools.pages import pictures
from ganeti_htools.pages.markup import Markup, element, fold, join, section, table
from ganeti_htools.pages.sides import Side, change, percent

DRAWN = 16  # nodes with pictures of their own
_SMALLEST = 0.0005  # change of a share that is shown


class NodeUsage(NamedTuple):
    """A resource of nodes: what is used and what there is, one entry per node, with the form of amounts."""

    name: str
    used: Floats
    total: Floats
    in_mib: bool

    @property
    def shares(self) -> Floats:
        """The used share of each node; 0 where there is nothing to use."""
        shares: Floats = np.divide(self.used, self.total, out=np.zeros_like(self.used), where=self.total > 0)
        return shares

    def amounts(self, node: int) -> tuple[str, str]:
        used, total = float(self.used[node]), float(self.total[node])
        return (size(used), size(total)) if self.in_mib else (f"{used:.0f}", f"{total:.0f}")


def resources(state: State) -> tuple[NodeUsage, ...]:
    """Compute what nodes have and use. The limit of virtual CPUs is that of the policy."""
    columns = state.columns

    def floats(values: Floats | Ints) -> Floats:
        return np.asarray(values, np.float64)

    return (
        NodeUsage("Memory", floats(columns.t_mem - columns.unallocated), floats(columns.t_mem), True),
        NodeUsage("Disk", floats(columns.t_dsk - columns.f_dsk), floats(columns.t_dsk), True),
        NodeUsage("vCPUs", floats(columns.u_cpu), floats(columns.t_cpu * columns.vcpu_ratio), False),
    )


class _Nodes:
    """The nodes before and after a plan, or as they are (twice the same)."""

    def __init__(self, before: Side, after: Side | None) -> None:
        self.ends = [end.state for end in (before, after) if end]
        self.names = before.nodes
        self.usage = [resources(state) for state in self.ends]
        self.shares = [np.array([each.shares for each in usage]) for usage in self.usage]
        self.states = [[state.node_state(row) for row in range(len(state.group))] for state in self.ends]
        if after:  # what a plan powers down is on standby then
            down = NodeState.IN_USE, NodeState.OFFLINE
            pairs = zip(*self.states, strict=True)
            self.states[1] = [NodeState.STANDBY if pair == down else pair[1] for pair in pairs]
        self.primaries = [
            np.bincount(state.pnode[~state.forthcoming], minlength=len(state.group)) for state in self.ends
        ]

    def order(self) -> tuple[list[int], int]:
        """Return the nodes, changed most or most in need first, and how many of them are worth a look."""
        last, fullest = self.ends[-1], self.shares[-1].max(axis=0)
        turned = np.array([len({states[row] for states in self.states}) > 1 for row in range(len(fullest))])
        if len(self.ends) > 1:
            moved: Floats = np.abs(self.shares[-1] - self.shares[0]).max(axis=0)
            different: Bools = turned | (moved > _SMALLEST) | (self.primaries[-1] != self.primaries[0])
            keys = [-fullest, -moved, ~turned, ~different]
            count = int(np.count_nonzero(different))
        else:
            held = np.bincount(last.pnode, minlength=len(fullest)) > 0
            needy = np.array([each.alarming for each in self.states[-1]], np.bool_)
            needy |= last.columns.fail_n1 | (last.columns.offline & held)
            keys = [-fullest, ~needy]
            count = len(fullest)
        return np.lexsort(keys).tolist(), min(count, len(fullest))

    def picture(self, row: int) -> Markup:
        """Draw a node: its state, and what is used of each resource."""
        state = self.ends[-1]
        about = [state.group_name(row)] if len(state.cluster.groups) > 1 else []
        about.append(f"{change([str(each[row]) for each in self.primaries])} primaries")
        bars = [
            element(
                "div",
                pictures.usage(*(float(ends[row]) for ends in reversed(shares))),
                element("span", new.name, class_="quiet"),
                element("span", change([percent(float(ends[row])) for ends in shares])),
            )
            for new, *shares in zip(self.usage[-1], *self.shares, strict=True)
        ]
        title = element("h3", self.names[row], self.marks(row))
        return element("div", title, element("p", ", ".join(about), class_="quiet"), *bars, class_="node")

    def marks(self, row: int) -> Markup:
        """Return the state of a node as a mark. Red is what nobody has asked for."""
        words, state = self.words(row), self.states[-1][row]
        found = [] if words == NodeState.IN_USE.phrase else [(words, state.alarming)]
        found += [("fails N+1", True)] if self.ends[-1].columns.fail_n1[row] else []
        return join(
            element("span", f"{'! ' * alarm}{word}", class_=f"mark{' alarm' * alarm}")
            for word, alarm in found
        )

    def words(self, row: int) -> str:
        """Return the words for the state of a node and its change."""
        return change([states[row].word or states[row].phrase for states in self.states])

    def cells(self, row: int) -> tuple[str, ...]:
        amounts = zip(*self.usage, strict=True)
        return (
            self.ends[0].cluster.nodes[row].name,
            self.words(row),
            change([str(each[row]) for each in self.primaries]),
            *(
                " of ".join(map(change, zip(*(end.amounts(row) for end in each), strict=True)))
                for each in amounts
            ),
        )


def fullest(side: Side) -> str:
    """Name the node in use with the least free share of a resource."""
    usage = resources(side.state)
    shares = np.array([each.shares for each in usage]) * ~side.state.columns.offline
    if not shares.any():
        return "none"
    which, row = np.unravel_index(int(shares.argmax()), shares.shape)
    name = usage[which].name
    return f"{side.nodes[int(row)]} {percent(float(shares[which, row]))} of {name[0].lower()}{name[1:]}"


def nodes(before: Side, after: Side | None) -> Markup:
    """Return pictures of the nodes that a plan changes or that need a look, and the others together."""
    if not before.state.cluster.nodes:
        return section("Nodes", element("p", "The cluster has no nodes."))
    found = _Nodes(before, after)
    order, count = found.order()
    drawn, rest = order[: min(count, DRAWN)], order[min(count, DRAWN) :]
    legend = "▲ marks 90 % and more."
    if after:
        legend += " The line in a bar is the use before the plan, the pale part is what becomes free."
    title = f"Nodes that change most: {len(drawn)} of {count}" if after else "Nodes in need, then the fullest"
    return section(
        title if drawn else "Nodes",
        element("p", legend, class_="quiet") if drawn else element("p", "No node changes."),
        element("div", *map(found.picture, drawn), class_="nodes"),
        *_others(found, rest, "Nodes that are not drawn above" if drawn else "All nodes"),
        *_tables(found, set(before.state.group[order[: count or None]].tolist())),
    )


def _others(found: _Nodes, rows: Sequence[int], title: str) -> Iterator[Markup]:
    """Yield the distribution of the use of nodes."""
    if not rows:
        return
    closed = [found.states[-1][row] for row in rows if found.states[-1][row] is not NodeState.IN_USE]
    words = [counted(closed.count(state), f"node {state.phrase}") for state in NodeState if state in closed]
    used = [row for row in rows if found.states[-1][row] is NodeState.IN_USE]
    yield element("h3", f"{title}: {', '.join([f'{len(used)} in use', *words])}")
    figures = []
    for each in found.usage[-1] if used else ():
        shares = each.shares[used]
        top = found.names[used[int(shares.argmax())]]
        spread = f"fullest {top} {percent(float(shares.max()))}, median {percent(float(np.median(shares)))}"
        figures.append(
            element(
                "figure",
                element("figcaption", f"{each.name}: {spread}"),
                pictures.distribution(shares.tolist()),
                element("div", element("span", "0 %"), element("span", "100 % used"), class_="ends"),
            )
        )
    yield element("div", *figures, class_="figures")


def _tables(found: _Nodes, groups: Collection[int]) -> Iterator[Markup]:
    """Yield a folded table of the nodes of each of these groups."""
    state = found.ends[0]
    header = ("Node", "State", "Primaries", *(each.name for each in found.usage[0]))
    for group in sorted(groups):
        rows = [found.cells(row) for row in np.flatnonzero(state.group == group).tolist()]
        name = f"All nodes of {state.cluster.groups[group].name}: {len(rows)}"
        yield fold(name, table(name, header, rows, (False, False, True, True, True, True)))
