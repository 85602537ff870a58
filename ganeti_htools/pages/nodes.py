"""The section of a page about nodes: pictures and a table of what is used."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ganeti_htools.model.columns import Floats, Ints
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import size
from ganeti_htools.pages import pictures
from ganeti_htools.pages.markup import Markup, element, join, section, table
from ganeti_htools.pages.sides import Side, change, percent, short_name

CARDS = 48  # nodes with a card each; of more nodes the distribution is drawn


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
        """Describe the used amount of a node and its total."""
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


def nodes(before: Side, after: Side | None) -> Markup:
    """Return the picture and the table of nodes."""
    state = before.state
    if not state.cluster.nodes:
        return section("Nodes", element("p", "The cluster has no nodes."))
    was, now = resources(state), resources((after or before).state)
    few = len(state.cluster.nodes) <= CARDS
    picture = _cards(before, after, was, now) if few else _profiles(was, now, after is not None)
    outline = " The dashed outline is the use before the plan." if after else ""
    legend = f"The filled bar is the used share.{outline}"
    return section("Nodes", element("p", legend, class_="quiet"), picture, _node_table(before, after))


def _cards(before: Side, after: Side | None, was: Sequence[NodeUsage], now: Sequence[NodeUsage]) -> Markup:
    marks = _marks((after or before).state)
    cards = []
    for row, node in enumerate(before.state.cluster.nodes):
        bars = [
            pictures.row(
                new.name,
                pictures.bar(new.shares[row], old.shares[row] if after else None),
                change([percent(each.shares[row]) for each in ((old, new) if after else (new,))]),
            )
            for old, new in zip(was, now, strict=True)
        ]
        mark = [element("p", marks[row], class_="alarm")] if marks[row] else []
        cards.append(element("div", element("h3", short_name(node.name)), *bars, *mark, class_="card"))
    return element("div", *cards, class_="cards")


def _profiles(was: Sequence[NodeUsage], now: Sequence[NodeUsage], changed: bool) -> Markup:
    figures = []
    for old, new in zip(was, now, strict=True):
        ends = [old, new] if changed else [new]
        spread = ", ".join(
            f"{name} {change([percent(float(of(end.shares))) for end in ends])}"
            for name, of in (("fullest", np.max), ("median", np.median), ("emptiest", np.min))
        )
        figures.append(
            element(
                "figure",
                element("figcaption", f"{new.name}: {spread}"),
                pictures.profile(new.shares.tolist(), old.shares.tolist() if changed else None),
                element("div", element("span", "fullest node"), element("span", "emptiest"), class_="ends"),
            )
        )
    return join(figures)


def _node_table(before: Side, after: Side | None) -> Markup:
    state = before.state
    last = (after or before).state
    was, now = resources(state), resources(last)
    counts = [np.bincount(end.pnode[~end.forthcoming], minlength=len(end.group)) for end in (state, last)]
    marks, names = _marks(last), [group.name for group in state.cluster.groups]
    rows = [
        (
            node.name,
            names[state.group[row]],
            marks[row] or "in use",
            change([str(count[row]) for count in counts]),
            *(
                " of ".join(map(change, zip(old.amounts(row), new.amounts(row), strict=True)))
                for old, new in zip(was, now, strict=True)
            ),
        )
        for row, node in enumerate(state.cluster.nodes)
    ]
    header = ("Node", "Group", "State", "Primaries", *(each.name for each in now))
    caption = f"Nodes: what is used{', before → after the plan' if after else ''}"
    return table(caption, header, rows, (False, False, False, True, True, True, True))


def _marks(state: State) -> list[str]:
    words = [state.node_state(row).word for row in range(len(state.cluster.nodes))]
    return [
        f"✕ {word}" if word else "! fails N+1" if failing else ""
        for word, failing in zip(words, state.columns.fail_n1.tolist(), strict=True)
    ]
