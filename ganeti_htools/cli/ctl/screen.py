"""The frames of ``htoolsctl top``: pure functions from what is known and chosen to lines of a screen."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.cli.ctl.status import ages, attention_lines
from ganeti_htools.cli.report.maintenance_marks import maintenance_line
from ganeti_htools.model.columns import NOWHERE, Floats
from ganeti_htools.model.errors import printable
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import counted, duration, size

_BARS = 7, 60  # the narrowest and the widest bar, in characters
_ALARMS, _MAINTAINED, _GOING = 3, 2, 4  # lines of alarms (a share of the screen), of the others at most
_ATTENTION = "ATTENTION  "
_HELP = "q quit s sort r reverse / filter j jobs enter open backspace back"


class Style(StrEnum):
    """The look of a line."""

    PLAIN = "plain"
    TITLE = "title"
    ALARM = "alarm"
    CHOSEN = "chosen"


class Line(NamedTuple):
    text: str
    style: Style = Style.PLAIN


class Choice(NamedTuple):
    """The part of the cluster that is shown.

    ``sort`` is a key of ``SORTS``. ``pattern`` filters nodes by name or group. Of ``node`` the instances are
    shown, of ``instance`` the reasons (``why``); with ``jobs``, Ganeti's jobs. ``row`` is the chosen row;
    ``typing``: the filter is open.
    """

    sort: str = "name"
    backwards: bool = False
    pattern: str = ""
    typing: bool = False
    row: int = 0
    node: str = ""
    instance: str = ""
    jobs: bool = False


class Shown(NamedTuple):
    """The daemon's status, the cluster, decisions in a second, and the reasons for the chosen instance.

    ``suffix`` ends all names, and is not shown. ``plans`` are being carried out. ``behind`` are the seconds
    since the daemon has answered, if it does not answer now.
    """

    status: Mapping[str, Any]
    state: State
    rate: float | None = None
    why: str = ""
    suffix: str = ""
    plans: Sequence[Mapping[str, Any]] = ()
    behind: float = 0.0


class _Table(NamedTuple):
    """A table of which only the visible rows become text."""

    title: str
    rows: Sequence[int]
    text: Callable[[int], str]


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
        rows.sort(key=lambda row: _by_number(names[row].name))
    else:
        figures = figure(state)
        rows.sort(key=lambda row: (-figures[row], names[row].name))
    return rows[::-1] if choice.backwards else rows


@cache
def _by_number(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts node2 before node10."""
    return [(int(digits or 0), text) for text, digits in re.findall(r"(\D*)(\d{0,9})", name)]


def instances(state: State, node: str) -> list[int]:
    """List the rows of the instances on a node, its primaries first."""
    row = state.nodes.get(node, NOWHERE)
    of = (state.pnode, state.snode)
    return [] if row == NOWHERE else [int(index) for hosts in of for index in np.flatnonzero(hosts == row)]


def frame(known: Shown, choice: Choice, width: int, height: int | None = None) -> list[Line]:
    """Lay out a screen of this size; with all rows if no height is given."""
    head = [*_summary(known, width, 24 if height is None else height)]
    table = _table(known, choice, width)
    room = len(table.rows) if height is None else max(1, height - len(head) - 2)
    first = min(max(0, choice.row - room + 1), max(0, len(table.rows) - room))
    lines = [*head, Line(table.title, Style.TITLE)]
    lines += [
        Line(table.text(row), Style.CHOSEN if height is not None and place == choice.row else Style.PLAIN)
        for place, row in enumerate(table.rows[first : first + room], first)
    ]
    if height is not None:
        lines += [Line("")] * (height - 1 - len(lines))
        lines.append(Line(_last_line(choice), Style.TITLE))
    return [Line(f"{printable(text):{width}.{width}}".rstrip(), style) for text, style in lines[:height]]


def _last_line(choice: Choice) -> str:
    if choice.typing:
        return f"/{choice.pattern}_"
    order = "" if choice.node or choice.jobs else f"by {choice.sort}"
    return " ".join(filter(None, (order, choice.pattern and f"/{choice.pattern}", _HELP)))


def _table(known: Shown, choice: Choice, width: int) -> _Table:
    if choice.jobs:
        jobs = known.status["cluster"]["jobs"]
        texts = [f"{each['id']:>8} {each['status']:9} {each['summary']}" for each in jobs]
        return _Table(f"{'JOB':>8} {'STATUS':9} SUMMARY", range(len(texts)), texts.__getitem__)
    if choice.instance:
        lines = known.why.splitlines()
        why = [part for line in lines for part in wrap(line, width, subsequent_indent="      ")]
        return _Table(f"why {choice.instance}", range(len(why)), why.__getitem__)
    if choice.node:
        return _instance_table(known.state, choice.node, known.suffix, width)
    return _node_table(known, choice, width)


def _summary(known: Shown, width: int, height: int) -> Iterator[Line]:
    """Yield the lines above the table."""
    status, cluster = known.status, known.status["cluster"]
    old = {kind: age + known.behind for kind, age in cluster["ages"].items()}
    if known.behind:
        yield Line(f"htoolsd does not answer for {duration(known.behind)}; {ages(old)}", Style.ALARM)
    else:
        line = f"{counted(cluster['nodes'] or 0, 'node')}, {counted(cluster['instances'] or 0, 'instance')}"
        line += f"  {ages(old)}  up {duration(status['uptime_s'])}"
        whole = f"{line}  htoolsd {status['version']}"
        yield Line(whole if len(whole) <= width else line, Style.TITLE)
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
    drawn = {plan["state"] for plan in known.plans}  # below
    plans = status["plans"].items()
    parts += [counted(number, f"{state} plan") for state, number in plans if state not in drawn]
    yield from map(Line, wrap(", ".join(parts), width))
    if groups := status["groups"]:
        yield Line(_groups(groups, width))
    on = [f"{each['name']} {each['mode']}" for each in status["policies"] or () if each["mode"] != "off"]
    if on:
        yield Line(f"policies {', '.join(on)}")
    yield from _some(
        "maintained ", [maintenance_line(node) for node in status["maintenance"]], _MAINTAINED, Style.PLAIN
    )
    yield from _some("", [_going(plan, width) for plan in known.plans], _GOING, Style.PLAIN)
    yield from _alarms(status["attention"], width, height // _ALARMS)
    yield Line("-" * width)


def _going(plan: Mapping[str, Any], width: int) -> str:
    """Describe the progress of a plan: a bar, its jobs, and the time that they take at this pace."""
    jobs = plan["jobs"]
    total, ended = sum(jobs.values()), jobs["succeeded"] + jobs["failed"]
    text = f" {ended} of {counted(total, 'job')}"
    if ended and ended < total and plan["began"] is not None:
        left = max(0.0, plan["now"] - plan["began"]) * (total - ended) / ended
        text += f", about {duration(left)} left"
    label = f"{plan['tool']} {plan['id'][:8]} "
    bar = min(_BARS[1], max(_BARS[0], width - len(label) - len(text) - 7))
    return f"{label}{_bar(ended / total if total else 0.0, bar)}{text}"


def _alarms(attention: Sequence[Mapping[str, Any]], width: int, most: int) -> Iterator[Line]:
    """Yield what needs attention, each line with its command, in about so many lines of the screen."""
    lines, shown = list[str](), 0
    for each in attention:
        parts = attention_lines(each, width)
        if lines and len(lines) + len(parts) + (shown + 1 < len(attention)) > most:
            break
        lines, shown = [*lines, *parts], shown + 1
    if shown < len(attention):
        lines.append(f"{_ATTENTION}and {len(attention) - shown} more: htoolsctl status")
    yield from (Line(line, Style.ALARM) for line in lines)


def _groups(groups: Sequence[Mapping[str, Any]], width: int) -> str:
    """Describe as many groups as there is room for: unhealthy ones first, then the highest scores."""
    worst = sorted(groups, key=lambda each: (each["health"] == "healthy", -(each["score"] or 0.0)))
    texts = [f"{each['name']} {_score(each['score'])} {each['health']}" for each in worst]
    for number in range(len(texts), 1, -1):
        more = [f"and {len(texts) - number} more"] if number < len(texts) else []
        if len(line := "  ".join([*texts[:number], *more])) <= width:
            return line
    return texts[0]


def _some(label: str, texts: Sequence[str], most: int, style: Style) -> Iterator[Line]:
    """Yield a line for each text; the last one says how many more there are."""
    shown = texts if len(texts) <= most else texts[: most - 1]
    yield from (Line(f"{label}{text}", style) for text in shown)
    if len(shown) < len(texts):
        yield Line(f"{label}and {len(texts) - len(shown)} more: htoolsctl status", style)


def _score(score: float | None) -> str:
    return "-" if score is None else f"{score:.3f}"


def _bar(share: float, size: int) -> str:
    filled = min(size, max(0, round(share * size)))
    return f"[{'#' * filled}{'.' * (size - filled)}]{min(999, round(share * 100)):4}%"


def _node_table(known: Shown, choice: Choice, width: int) -> _Table:
    """Lay out the nodes; with measured load also the share of CPU in use now, and in the worst hour."""
    state, load = known.state, {each["name"]: each for each in known.status.get("load", {}).get("nodes", ())}
    columns, names = state.columns, [node.name.removesuffix(known.suffix) for node in state.cluster.nodes]
    shown, rest = nodes(state, choice), 43 + 12 * bool(load)
    team = min(max([5, *(len(state.group_name(row)) for row in shown)]), max(8, width // 8))
    label = min(max([4, *(len(names[row]) for row in shown)]), max(10, width - team - rest - 14))
    bar = min(_BARS[1], max(_BARS[0], (width - label - team - rest) // 2))
    memory, disk, cpu = (SORTS[name](state) for name in ("memory", "disk", "cpu"))  # type: ignore[misc]

    def use(row: int) -> str:
        each = load.get(state.cluster.nodes[row].name, {})
        shares = (each.get(key) for key in ("now", "worst"))
        return "".join(f" {'-' if share is None else f'{share:.0%}':>5}" for share in shares)

    def text(row: int) -> str:
        return (
            f"{names[row]:{label}.{label}} {state.group_name(row):{team}.{team}} {_bar(memory[row], bar)}"
            f" {_bar(disk[row], bar)} {cpu[row]:5.2f}{use(row) if load else ''}"
            f" {columns.primaries[row]:3} {columns.secondaries[row]:3} {_condition(state, row)}"
        )

    bars = f"{'MEMORY':{bar + 7}} {'DISK':{bar + 7}}"
    uses = f" {'USE':>5} {'WORST':>5}" if load else ""
    return _Table(
        f"{'NODE':{label}} {'GROUP':{team}} {bars} {'CPU':>5}{uses} {'PRI':>3} {'SEC':>3} STATE", shown, text
    )


def _condition(state: State, row: int) -> str:
    if word := state.node_state(row).word:
        return word
    if state.columns.fail_n1[row]:
        return "N+1"
    return "master" if state.cluster.nodes[row].master else ""


def _instance_table(state: State, node: str, suffix: str, width: int) -> _Table:
    label, here = max(10, width - 58), state.nodes.get(node, NOWHERE)

    def text(index: int) -> str:
        row = state.cluster.instances[index]
        role = "primary" if state.pnode[index] == here else "secondary"
        other = row.snode if role == "primary" else row.pnode
        name, other = row.name.removesuffix(suffix), (other or "-").removesuffix(suffix)
        return (
            f"{name:{label}.{label}} {role:9} {row.template.value:8.8} {size(row.mem):>9}"
            f" {size(sum(disk.size for disk in row.disks)):>9} {row.vcpus:4} {other}"
        )

    heads = f"{'ROLE':9} {'TEMPLATE':8} {'MEMORY':>9} {'DISK':>9} VCPU OTHER NODE"
    return _Table(
        f"{f'ON {node.removesuffix(suffix)}':{label}.{label}} {heads}", instances(state, node), text
    )


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
        case "/" if not choice.node and not choice.jobs:
            return choice._replace(typing=True)
        case "j":
            return choice._replace(jobs=not choice.jobs, row=0)
        case "back" if choice.jobs:
            return choice._replace(jobs=False, row=0)
        case "enter" if shown and not choice.instance and not choice.jobs:
            row = shown[min(choice.row, len(shown) - 1)]
            if choice.node:
                return choice._replace(instance=state.cluster.instances[row].name)
            return choice._replace(node=state.cluster.nodes[row].name, row=0)
        case "back":
            if choice.instance:
                return choice._replace(instance="")
            if not choice.node:
                return choice._replace(pattern="", row=0)
            left, rows = state.nodes.get(choice.node, NOWHERE), nodes(state, choice)
            return choice._replace(node="", row=rows.index(left) if left in rows else 0)
    return choice
