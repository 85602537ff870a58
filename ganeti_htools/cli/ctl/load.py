"""The measured load of nodes and instances."""

from collections.abc import Callable, Iterator
from typing import Any

from ganeti_htools.cli.ctl.commands import Add, asking
from ganeti_htools.cli.report.layout import fitting_table, gib
from ganeti_htools.model.wording import duration

_PATIENCE = 30.0  # seconds; the load of a large cluster is computed
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def declare(add: Add) -> None:
    doc = "Show the measured load of the nodes, or of a node's instances, hottest first."
    load = add("load", asking("load", loads, "name", patience=_PATIENCE), doc)
    load.add_argument("name", metavar="NODE|INSTANCE", nargs="?", help="a node or an instance")
    doc = "List instances that are too large for what they use, or whose CPU is at its limit."
    add("sizes", asking("sizes", sizes, patience=_PATIENCE), doc)


def loads(answer: Any) -> str:
    tables = (_table(kind, answer[key]) for kind, key in (("Node", "nodes"), ("Instance", "instances")))
    return "\n".join([*_state(answer), *filter(None, tables)])


def state(load: Any) -> str:
    if load["age_s"] is None:
        return f"{load['source']}, nothing measured yet"
    known = f"known for {load['coverage']:.0f} % of the instances"
    return f"{load['source']}, {duration(load['age_s'])} old, {known}"


def _state(answer: Any) -> Iterator[str]:
    yield f"Load: {state(answer)}"
    if answer["unused"]:
        yield f"not used: {answer['unused']}"
    if answer["missing"]:
        yield f"unknown, counted with the median per VCPU: {', '.join(answer['missing'])}"
    if answer["impossible"]:
        yield f"impossible figures: {', '.join(answer['impossible'])}"
    yield from answer["errors"]


def _table(kind: str, rows: Any) -> str:
    """Lay out the load of nodes or instances: CPU in cores, memory in GiB."""
    if not rows:
        return ""
    nodes = kind == "Node"
    header = [kind, *(["CPUs"] if nodes else []), "VCPUs", "now", "95%", "worst", "at", "GiB"]
    header += [*(["given"] if nodes else []), "now", "worst", "wait" if nodes else "Node"]
    cells = []
    for each in rows:
        now, worst = each["now"] or {}, each["worst"]
        cpu = [*([f"{each['cpus']:g}"] if nodes else []), str(each["vcpus"]), _number(now.get("cpu"))]
        cpu += [
            _number(each["p95"]["cpu"]),
            _number(worst["cpu"]),
            _hour(each["worst_hour"]["cpu"], worst["cpu"]),
        ]
        memory = [gib(each["memory"]), *([gib(each["assigned_memory"])] if nodes else [])]
        memory += [_gib(now.get("mem")), _gib(worst["mem"])]
        cells.append([each["name"], *cpu, *memory, _percent(each["pressure"]) if nodes else each["node"]])
    return fitting_table(header, cells, [False, *(name not in ("at", "Node") for name in header[1:])])


def _hour(hour: int, value: float | None) -> str:
    return "?" if value is None else f"{_DAYS[hour // 24]} {hour % 24:02}h"


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.1f}"


def _gib(mib: float | None) -> str:
    return "?" if mib is None else gib(mib)


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.0f}%"


def sizes(rows: Any) -> str:
    """Format the answer to ``sizes``; the last column counts hours with CPU at its limit."""
    if not rows:
        return "no instance has a size that does not fit its load"
    header = ("Instance", "Node", "VCPUs", "worst", "fit", "GiB", "worst", "fit", "full h")
    cells = [
        [
            *(each["name"], each["node"], str(each["vcpus"]), _number(each["worst"]["cpu"])),
            *(_blank(each["fits"]["vcpus"], str), gib(each["memory"]), _gib(each["worst"]["mem"])),
            *(_blank(each["fits"]["memory"], gib), str(each["full_hours"] or "")),
        ]
        for each in rows
    ]
    return fitting_table(header, cells, [name not in ("Instance", "Node") for name in header])


def _blank(fits: int | None, form: Callable[[int], str]) -> str:
    return "" if fits is None else form(fits)
