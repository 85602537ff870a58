"""Answers about the ledger as text."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ganeti_htools.cli.report.layout import fitting_table
from ganeti_htools.model.resource_classes import VCPU, is_own

_FIGURES = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio", "capacity")


def providers(told: Any) -> str:
    """Format the answer to ``providers``."""
    rows = [
        (each["name"], str(each["generation"]), "yes" if each["can_host"] else "no", each["uuid"])
        for each in told
    ]
    return _table(("Provider", "Generation", "Hosts", "UUID"), rows, "no resource providers")


def inventories(told: Any) -> str:
    """Format the answer to ``inventory`` and ``set_inventory``."""
    rows = [
        (each["name"], name, *(_shown(found[figure]) for figure in _FIGURES))
        for each in told
        for name, found in each["inventories"].items()
    ]
    header = "Total", "Reserved", "Min", "Max", "Step", "Ratio", "Capacity"
    lines = [_table(("Provider", "Class", *header), rows, "no inventories", text=2)]
    untagged = [
        f"{each['name']} {name}"
        for each in told
        for name, found in each["inventories"].items()
        if each["can_host"] and not found["tagged"] and _is_setting(name, found)
    ]
    if untagged:
        lines.append(f"In this ledger only, in no tag; set again: {', '.join(untagged)}")
    return "\n".join(lines)


def _is_setting(name: str, found: Mapping[str, Any]) -> bool:
    """Whether an administrator has set something of an inventory, such as fewer CPUs than the node has."""
    follows = name == VCPU and found["max_unit"] == max(1, found["total"])
    most = found["max_unit"] if follows else None
    usual = {**found, "reserved": 0, "min_unit": 1, "max_unit": most, "step_size": 1}
    return not is_own(name) or found != usual


def usages(told: Any) -> str:
    """Format the answer to ``usage``: each class of each provider, then the totals of several providers.

    A class without capacity on some provider has no total capacity.
    """
    rows = [
        (each["name"], name, *_use(found["used"], found["capacity"]))
        for each in told
        for name, found in each["usages"].items()
    ]
    found = [entry for each in told for entry in each["usages"].items()]
    for name in sorted({name for name, _ in found}) if len(told) > 1 else ():
        capacities = [each["capacity"] for other, each in found if other == name]
        used = sum(each["used"] for other, each in found if other == name)
        rows.append(("total", name, *_use(used, None if None in capacities else sum(capacities))))
    return _table(("Provider", "Class", "Used", "Capacity", "Left"), rows, "no inventories", text=2)


def _use(used: int, capacity: int | None) -> tuple[str, str, str]:
    return str(used), *(("-", "-") if capacity is None else (str(capacity), str(capacity - used)))


def allocations(told: Any) -> str:
    """Format the answer to ``allocations`` and ``claim``: consumers with their amounts by provider."""
    lines = [line for consumer in told for line in _consumer(consumer)]
    return "\n".join(lines) or "no allocations"


def candidates(told: Any) -> str:
    """Format the answer to ``candidates``."""
    rows = [
        (" + ".join(part["name"] for part in each["allocations"]), f"{100 * each['left']:.1f}%")
        for each in told
    ]
    return _table(("Provider", "Left"), rows, "no node or pool has room for this")


def released(told: Any) -> str:
    """Format the answer to ``release``."""
    return f"the claim of {told['name']} has ended"


def _consumer(consumer: Mapping[str, Any]) -> Iterator[str]:
    facts = [consumer["kind"]]
    facts += ["promised"] * consumer["promised"] + ["beyond the capacity"] * consumer["beyond"]
    if consumer["expires"] is not None:
        facts.append(f"until {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(consumer['expires']))}")
    yield f"{consumer['name']} ({', '.join(facts)})"
    yield from (f"  {_amounts(each)}" for each in consumer["allocations"])
    if consumer.get("replaced"):
        yield f"  in place of {'; '.join(map(_amounts, consumer['replaced']))}"


def _amounts(allocation: Mapping[str, Any]) -> str:
    amounts = ", ".join(f"{name} {used}" for name, used in allocation["resources"].items())
    return f"{allocation['name']}: {amounts}"


def _shown(figure: int | float | None) -> str:
    return "-" if figure is None else f"{figure:.15g}"


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], nothing: str, text: int = 1) -> str:
    """Lay out a table; its columns from ``text`` on are numbers, except UUIDs."""
    numeric = [place >= text and name not in ("UUID", "Hosts") for place, name in enumerate(header)]
    return fitting_table(header, rows, numeric, labels=text).rstrip("\n") if rows else nothing
