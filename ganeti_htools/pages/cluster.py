"""Sections of a page about a cluster, before and after a plan."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.capacity.storage import ClusterStorage, storage_of
from ganeti_htools.engine.rules.broken_rules import broken_rules
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Floats, Ints
from ganeti_htools.model.state import State
from ganeti_htools.model.units_in_use import units_in_use
from ganeti_htools.model.wording import counted, size
from ganeti_htools.pages import pictures
from ganeti_htools.pages.markup import Markup, element, join, table
from ganeti_htools.planning.group_health import health_of
from ganeti_htools.planning.jobsets import PlannedMove

CARDS = 48  # nodes with a card each; of more nodes the distribution is drawn
_LONGEST = 40  # characters of a name beside a picture; tables have whole names
_SCORED = 12  # groups whose components are drawn, those with changes first
_NAMED = 12  # instances that a cell names

Jobsets = Sequence[Sequence[PlannedMove[Any]]]
Health = Sequence[Mapping[str, Any]]


class Side(NamedTuple):
    """A cluster before or after a plan: its state, and the health of its groups."""

    state: State
    health: Health

    @classmethod
    def of(cls, state: State) -> "Side":
        """Assess a state."""
        return cls(state, health_of(state))


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


def section(title: str, *content: str) -> Markup:
    """Return a section with its title."""
    return element("section", element("h2", title), *content)


def sections(before: Side, after: Side | None) -> Iterator[Markup]:
    """Yield the sections about a cluster; ``after`` is None without a plan."""
    yield groups(before, after)
    yield nodes(before, after)
    yield score(before, after)
    yield storage(before, after)
    yield faults(before, after)


def facts(before: Side, after: Side | None) -> Markup:
    """Return the size and the health of the cluster in few figures."""
    cluster = before.state.cluster
    changed = after or before
    good = sum(group["health"] == "healthy" for group in changed.health)
    entries = {
        "Nodes": str(len(cluster.nodes)),
        "Instances": str(len(changed.state.cluster.instances)),
        "Groups with nodes": str(len(before.health)),
        "Healthy groups" + " after the plan" * (after is not None): f"{good} of {len(changed.health)}",
    }
    listed = (element("li", f"{name} ", element("b", value)) for name, value in entries.items())
    return element("ul", *listed, class_="facts")


def groups(before: Side, after: Side | None) -> Markup:
    """Return the table of node groups."""
    header = ["Group", "Nodes", "Instances", "Health", "Score"]
    later = {group["name"]: group for group in (after or before).health}
    rows = []
    for group in before.health:
        ends = [group, *([later[group["name"]]] if after else [])]
        rows.append(
            (
                group["name"],
                str(group["nodes"]),
                _change([str(end["instances"]) for end in ends]),
                _change([end["health"] for end in ends]),
                _change([_figure(end["score"]) for end in ends]),
            )
        )
    if not rows:
        return section("Node groups", element("p", "No group has nodes."))
    caption = "Node groups, with their state before and after the plan" if after else "Node groups"
    return section("Node groups", table(caption, header, rows, (False, True, True, False, True)))


def _change(ends: Sequence[str]) -> str:
    return " → ".join(dict.fromkeys(ends))


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.5f}"


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
                _change([_percent(each.shares[row]) for each in ((old, new) if after else (new,))]),
            )
            for old, new in zip(was, now, strict=True)
        ]
        mark = [element("p", marks[row], class_="alarm")] if marks[row] else []
        cards.append(element("div", element("h3", _cut(node.name)), *bars, *mark, class_="card"))
    return element("div", *cards, class_="cards")


def _profiles(was: Sequence[NodeUsage], now: Sequence[NodeUsage], changed: bool) -> Markup:
    figures = []
    for old, new in zip(was, now, strict=True):
        ends = [old, new] if changed else [new]
        spread = ", ".join(
            f"{name} {_change([_percent(float(of(end.shares))) for end in ends])}"
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
            _change([str(count[row]) for count in counts]),
            *(
                " of ".join(map(_change, zip(old.amounts(row), new.amounts(row), strict=True)))
                for old, new in zip(was, now, strict=True)
            ),
        )
        for row, node in enumerate(state.cluster.nodes)
    ]
    header = ("Node", "Group", "State", "Primaries", *(each.name for each in now))
    caption = f"Nodes: what is used{', before → after the plan' if after else ''}"
    return table(caption, header, rows, (False, False, False, True, True, True, True))


def _marks(state: State) -> list[str]:
    columns = state.columns
    return [
        "✕ offline" if offline else "! fails N+1" if failing else ""
        for offline, failing in zip(columns.offline.tolist(), columns.fail_n1.tolist(), strict=True)
    ]


def score(before: Side, after: Side | None) -> Markup:
    """Return the weighted components of the score of groups: pictures and a table."""
    later = {group["name"]: group for group in (after or before).health}
    pairs = [(group, later[group["name"]]) for group in before.health if group["components"]]
    pairs.sort(key=lambda pair: (pair[0]["score"] == pair[1]["score"], -(pair[0]["score"] or 0)))
    shown = [_components(was, now, after is not None) for was, now in pairs[:_SCORED]]
    if not shown:
        return section("Score by component", element("p", "No group has nodes in use."))
    note = "Lower is better. Each component counts with its weight; what is 0 is left out."
    more = len(pairs) - len(shown)
    rest = [element("p", f"Not shown: {counted(more, 'group')} with less score.")] if more else []
    return section("Score by component", element("p", note, class_="quiet"), *shown, *rest)


def _components(was: Mapping[str, Any], now: Mapping[str, Any], changed: bool) -> Markup:
    figures = {
        name: (old, now["components"].get(name))
        for name, old in was["components"].items()
        if old or now["components"].get(name)
    }
    most = max((value for pair in figures.values() for value in pair if value), default=0.0) or 1.0
    rows, cells = [], []
    for name, (old, new) in sorted(figures.items(), key=lambda each: -max(filter(None, each[1]), default=0)):
        text = _change([_figure(value) for value in ((old, new) if changed else (new,))])
        rows.append(
            pictures.row(name, pictures.bar((new or 0) / most, (old or 0) / most if changed else None), text)
        )
        cells.append((name, *(_figure(value) for value in ((old, new) if changed else (new,)))))
    ends = ("Before", "After") if changed else ("Now",)
    title = (
        f"{was['name']}: {_change([_figure(end['score']) for end in ((was, now) if changed else (now,))])}"
    )
    content = table(
        f"Components of group {was['name']}", ("Component", *ends), cells, (False, *[True] * len(ends))
    )
    return join((element("h3", title), element("div", *rows, class_="long"), content if cells else ""))


def storage(before: Side, after: Side | None) -> Markup:
    """Return the storage units and pools; an empty text if nodes report none."""
    if not before.state.units.reported:
        return Markup()
    ends = [_storage(end.state) for end in (before, *([after] if after else []))]
    figures = []
    for unit in zip(*(_rooms(end) for end in ends), strict=True):
        name, where, _, total = unit[0]
        figures.append((name, where, [each[2] for each in unit], total))
    rows, bars = [], []
    for name, where, free, total in figures:
        left = _change(["unknown" if each is None else size(each) for each in free])
        rows.append((name, where, "unknown" if total is None else size(total), left))
        if total and None not in free:
            used = [1 - each / total for each in free if each is not None]
            text = _change([_percent(each) for each in used])
            bars.append(pictures.row(_cut(name), pictures.bar(used[-1], used[0] if after else None), text))
    caption = f"Storage units and pools{', before → after the plan' if after else ''}"
    listed = table(caption, ("Unit", "Nodes", "Total", "Free"), rows, (False, True, True, True))
    legend = element("p", "The bar is the used share of all nodes together.", class_="quiet")
    return section("Storage units", legend, element("div", *bars, class_="long"), listed)


def _storage(state: State) -> ClusterStorage:
    cluster: Cluster = state.to_cluster()
    return storage_of(cluster, units_in_use(cluster))


def _rooms(told: ClusterStorage) -> Iterator[tuple[str, str, int | None, int | None]]:
    """Yield name, number of nodes, free and total MiB of each unit and pool."""
    for unit in told.units:
        free, total = (sum(getattr(node, each) for node in unit.nodes) for each in ("free", "total"))
        yield f"{unit.type}/{unit.key}".removesuffix("/"), str(len(unit.nodes)), free, total
    for pool in told.pools:
        yield f"{pool.type}/{pool.key}".removesuffix("/"), str(len(pool.nodes)), pool.free, pool.total


def faults(before: Side, after: Side | None) -> Markup:
    """Return what is fragile and why: nodes that fail N+1 or cannot be lost, and broken rules."""
    content = [*_faults(before, "Now" if after else "")]
    if after:
        content += _faults(after, "After the plan")
    return section("What is fragile", *content)


def _faults(side: Side, title: str) -> Iterator[Markup]:
    state = side.state
    if title:
        yield element("h3", title)
    whys = [(group["name"], why) for group in side.health for why in group["why"]]
    broken = broken_rules(state)
    if not whys and not broken:
        yield element("p", "✓ Nothing: every group is healthy, and every node can be lost.")
        return
    yield element("ul", *(element("li", f"{name}: {why}") for name, why in whys))
    rows = [*_failing(side), *_fatal(side)]
    if rows:
        header = ("Node", "Group", "Fault", "Instances")
        yield table("Nodes that are not redundant, and the instances that suffer", header, rows, (False,) * 4)
    if broken:
        names = [row.name for row in state.cluster.instances]
        found = [
            (each.rule, _some([names[row] for row in each.instances]), _some(state.names(each.nodes)))
            for each in broken
        ]
        yield table("Broken rules of instances", ("Rule", "Instances", "Nodes"), found, (False,) * 3)


def _failing(side: Side) -> Iterator[tuple[str, ...]]:
    state, rows = side.state, {node.name: row for row, node in enumerate(side.state.cluster.nodes)}
    names = [instance.name for instance in state.cluster.instances]
    for group in side.health:
        for node in group["failing"]:
            row = rows[node]
            kept, free = int(state.columns.r_mem[row]), int(state.columns.unallocated[row])
            fault = f"fails N+1: it must keep {size(kept)} of memory free, and has {size(free)}"
            kept_for = np.flatnonzero((state.snode == row) & ~state.forthcoming).tolist()
            yield node, group["name"], fault, _some([names[each] for each in kept_for])


def _fatal(side: Side) -> Iterator[tuple[str, ...]]:
    places = {
        row.name: int(node)
        for row, node in zip(side.state.cluster.instances, side.state.pnode.tolist(), strict=True)
    }
    for group in side.health:
        lost: dict[str, list[str]] = {node: [] for node in group["unrecoverable"]["nodes"]}
        for name in group["unrecoverable"]["instances"]:
            lost[side.state.cluster.nodes[places[name]].name].append(name)
        for node, names in lost.items():
            fault = f"cannot be lost: {counted(len(names), 'instance')} would not come back"
            yield node, group["name"], fault, _some(names)


def moves(jobsets: Jobsets) -> Markup:
    """Return the table of the moves of a plan."""
    made = [(number, move) for number, jobs in enumerate(jobsets, 1) for move in jobs]
    if not made:
        return section("Moves", element("p", "No instance moves."))
    rows = [
        (
            str(place),
            str(number),
            move.instance,
            ", ".join(move.was),
            ", ".join(move.now),
            size(move.disk),
            join(element("div", element("code", command)) for command in move.shell_commands),
        )
        for place, (number, move) in enumerate(made, 1)
    ]
    disk, memory = (sum(getattr(move, kind) for _, move in made) for kind in ("disk", "memory"))
    told = (
        f"{counted(len(made), 'move')} in {counted(len(jobsets), 'jobset')};"
        f" to copy: {size(disk)} of disks, {size(memory)} of memory."
    )
    header = ("Move", "Jobset", "Instance", "From", "To", "Disks", "Commands")
    numeric = (True, True, False, False, False, True, False)
    return section("Moves", element("p", told), table("Moves in their order", header, rows, numeric))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _cut(name: str) -> str:
    half = _LONGEST // 2
    return name if len(name) <= _LONGEST else f"{name[:half]}…{name[1 - half :]}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + f" and {more} more" * (more > 0)
