"""The frames of ``htoolsctl top``: pure functions from what is known and chosen to lines of a screen."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.cli.report.daemon import ages, duration, origin
from ganeti_htools.cli.report.layout import counted, size
from ganeti_htools.model.cluster import common_suffix
from ganeti_htools.model.columns import NOWHERE, Floats
from ganeti_htools.model.errors import printable
from ganeti_htools.model.state import State

_BAR = 7  # characters
_ALARMS, _MAINTAINED = 3, 2  # lines of these at most
_HELP = "q quit  s sort  r reverse  / filter  enter open  backspace back"


class Style(StrEnum):
    """The look of a line."""

    PLAIN = "plain"
    TITLE = "title"
    ALARM = "alarm"
    CHOSEN = "chosen"


class Line(NamedTuple):
    """A line of the screen."""

    text: str
    style: Style = Style.PLAIN


class Choice(NamedTuple):
    """The part of the cluster that is shown.

    ``sort`` is a key of ``SORTS``. ``pattern`` filters nodes by name or group. Of ``node`` the instances are
    shown, of ``instance`` the reasons (``why``). ``row`` is the chosen row; ``typing``: the filter is open.
    """

    sort: str = "name"
    backwards: bool = False
    pattern: str = ""
    typing: bool = False
    row: int = 0
    node: str = ""
    instance: str = ""


class Shown(NamedTuple):
    """The daemon's status, the cluster, decisions in a second, and the reasons for the chosen instance."""

    status: Mapping[str, Any]
    state: State
    rate: float | None = None
    why: str = ""


def _used(free: Any, total: Any) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        shares: Floats = np.nan_to_num(1 - free / total, posinf=0.0, neginf=0.0)
    return shares


def _cpu(state: State) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Floats = np.nan_to_num(state.columns.u_cpu / state.columns.t_cpu, posinf=0.0)
    return ratio


# The figure of each node by which rows are sorted; None sorts by name. The largest comes first.
SORTS: Mapping[str, Callable[[State], Floats] | None] = {
    "name": None,
    "memory": lambda state: _used(state.columns.unallocated, state.columns.t_mem),
    "disk": lambda state: _used(state.columns.f_dsk, state.columns.t_dsk),
    "cpu": _cpu,
    "primaries": lambda state: state.columns.primaries.astype(float),
}


def nodes(state: State, choice: Choice) -> list[int]:
    """Select and sort the rows of nodes."""
    names, groups = state.cluster.nodes, state.cluster.groups
    rows = [
        row
        for row, node in enumerate(names)
        if choice.pattern in node.name or choice.pattern in groups[int(state.group[row])].name
    ]
    figure = SORTS[choice.sort]
    if figure is None:
        rows.sort(key=lambda row: names[row].name)
    else:
        figures = figure(state)
        rows.sort(key=lambda row: (-figures[row], names[row].name))
    return rows[::-1] if choice.backwards else rows


def instances(state: State, node: str) -> list[int]:
    """List the rows of the instances on a node, its primaries first."""
    row = state.nodes.get(node, NOWHERE)
    of = (state.pnode, state.snode)
    return [] if row == NOWHERE else [int(index) for hosts in of for index in np.flatnonzero(hosts == row)]


def frame(known: Shown, choice: Choice, width: int, height: int | None = None) -> list[Line]:
    """Lay out a screen of this size; with all rows if no height is given."""
    head = [*_summary(known, width)]
    if choice.instance:
        title, rows = f"why {choice.instance}", known.why.splitlines()
    elif choice.node:
        title, rows = _instance_table(known.state, choice.node, width)
    else:
        title, rows = _node_table(known.state, choice, width)
    room = len(rows) if height is None else max(1, height - len(head) - 2)
    first = min(max(0, choice.row - room + 1), max(0, len(rows) - room))
    lines = [*head, Line(title, Style.TITLE)]
    lines += [
        Line(text, Style.CHOSEN if height is not None and row == choice.row else Style.PLAIN)
        for row, text in enumerate(rows[first : first + room], first)
    ]
    if height is not None:
        lines += [Line("")] * (height - 1 - len(lines))
        lines.append(Line(f"/{choice.pattern}_" if choice.typing else _HELP, Style.TITLE))
    return [Line(f"{printable(text):{width}.{width}}".rstrip(), style) for text, style in lines[:height]]


def _summary(known: Shown, width: int) -> Iterator[Line]:
    """Yield the lines above the table."""
    status, cluster = known.status, known.status["cluster"]
    yield Line(
        f"htoolsd {status['version']}  {counted(cluster['nodes'] or 0, 'node')},"
        f" {counted(cluster['instances'] or 0, 'instance')}  {ages(cluster['ages'])}"
        f"  up {duration(status['uptime_s'])}",
        Style.TITLE,
    )
    decisions = status["decisions"]
    rate = "" if known.rate is None else f"{known.rate:.1f}/s, "
    median = "" if decisions["median_ms"] is None else f", median {decisions['median_ms']:.0f} ms"
    parts = [f"decisions {rate}{decisions['served']} served{median}"]
    if decisions["alone"]:
        parts.append(f"{decisions['alone']} without the daemon")
    if status["claims"] and status["claims"]["living"]:
        parts.append(counted(status["claims"]["living"], "claim"))
    if cluster["unfinished_jobs"] is not None:
        parts.append(f"{counted(cluster['unfinished_jobs'], 'job')} of Ganeti")
    parts += [
        f"{number} {state} {'plan' if number == 1 else 'plans'}" for state, number in status["plans"].items()
    ]
    yield Line(", ".join(parts))
    if groups := status["groups"]:
        yield Line("  ".join(f"{each['name']} {_score(each['score'])} {each['health']}" for each in groups))
    on = [f"{each['name']} {each['mode']}" for each in status["policies"] or () if each["mode"] != "off"]
    if on:
        yield Line(f"policies {', '.join(on)}")
    yield from _some(
        "maintained ", [origin(node) for node in status["maintenance"]], _MAINTAINED, Style.PLAIN
    )
    yield from _some("ATTENTION  ", [each["text"] for each in status["attention"]], _ALARMS, Style.ALARM)
    yield Line("-" * width)


def _some(label: str, texts: Sequence[str], most: int, style: Style) -> Iterator[Line]:
    """Yield a line for each text; the last one says how many more there are."""
    shown = texts if len(texts) <= most else texts[: most - 1]
    yield from (Line(f"{label}{text}", style) for text in shown)
    if len(shown) < len(texts):
        yield Line(f"{label}and {len(texts) - len(shown)} more: htoolsctl status", style)


def _score(score: float | None) -> str:
    return "-" if score is None else f"{score:.3f}"


def _bar(share: float) -> str:
    filled = min(_BAR, max(0, round(share * _BAR)))
    return f"[{'#' * filled}{'.' * (_BAR - filled)}]{min(999, round(share * 100)):4}%"


def _node_table(state: State, choice: Choice, width: int) -> tuple[str, list[str]]:
    columns, suffix = state.columns, common_suffix(state.cluster)
    label = max(10, width - 64)
    memory, disk, cpu = (SORTS[name](state) for name in ("memory", "disk", "cpu"))  # type: ignore[misc]
    rows = []
    for row in nodes(state, choice):
        name = state.cluster.nodes[row].name.removesuffix(suffix)
        group = state.cluster.groups[int(state.group[row])].name
        rows.append(
            f"{name:{label}.{label}} {group:8.8} {_bar(memory[row])} {_bar(disk[row])} {cpu[row]:5.2f}"
            f" {columns.primaries[row]:3} {columns.secondaries[row]:3} {_condition(state, row)}"
        )
    title = f"{'NODE':{label}} {'GROUP':8} {'MEMORY':14} {'DISK':14} {'CPU':>5} {'PRI':>3} {'SEC':>3} STATE"
    return f"{title}  by {choice.sort}" if width > 100 else title, rows


def _condition(state: State, row: int) -> str:
    node = state.cluster.nodes[row]
    if node.in_maintenance:
        return "maint."
    if node.drained or node.offline:
        return "drained" if node.drained else "offline"
    if state.columns.fail_n1[row]:
        return "N+1"
    return "master" if node.master else ""


def _instance_table(state: State, node: str, width: int) -> tuple[str, list[str]]:
    label, here = max(10, width - 58), state.nodes.get(node, NOWHERE)
    rows = []
    for index in instances(state, node):
        row = state.cluster.instances[index]
        role = "primary" if state.pnode[index] == here else "secondary"
        other = row.snode if role == "primary" else row.pnode
        rows.append(
            f"{row.name:{label}.{label}} {role:9} {row.template.value:8.8} {size(row.mem):>9}"
            f" {size(sum(disk.size for disk in row.disks)):>9} {row.vcpus:4} {other or '-'}"
        )
    heads = f"{'ROLE':9} {'TEMPLATE':8} {'MEMORY':>9} {'DISK':>9} VCPU OTHER NODE"
    return f"{f'ON {node}':{label}.{label}} {heads}", rows


def press(key: str, choice: Choice, state: State) -> Choice | None:
    """Return the choice after a key; None ends the program.

    Keys are letters and ``up``, ``down``, ``page up``, ``page down``, ``home``, ``end``, ``enter``, ``back``.
    """
    if choice.typing:
        if key in ("enter", "back") and not (key == "back" and choice.pattern):
            return choice._replace(typing=False)
        pattern = choice.pattern[:-1] if key == "back" else choice.pattern + key * (len(key) == 1)
        return choice._replace(pattern=pattern, row=0)
    shown = instances(state, choice.node) if choice.node else nodes(state, choice)
    steps = {"up": -1, "down": 1, "page up": -10, "page down": 10, "home": -len(shown), "end": len(shown)}
    if key in steps:
        return choice._replace(row=min(max(0, choice.row + steps[key]), max(0, len(shown) - 1)))
    match key:
        case "q":
            return None
        case "s":
            kinds = list(SORTS)
            return choice._replace(sort=kinds[(kinds.index(choice.sort) + 1) % len(kinds)], row=0)
        case "r":
            return choice._replace(backwards=not choice.backwards, row=0)
        case "/" if not choice.node:
            return choice._replace(typing=True)
        case "enter" if shown and not choice.instance:
            row = shown[min(choice.row, len(shown) - 1)]
            if choice.node:
                return choice._replace(instance=state.cluster.instances[row].name)
            return choice._replace(node=state.cluster.nodes[row].name, row=0)
        case "back":
            return choice._replace(instance="") if choice.instance else choice._replace(node="", row=0)
    return choice
