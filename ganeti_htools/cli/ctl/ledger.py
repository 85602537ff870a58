"""The ledger: providers, inventories, allocations and claims."""

from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ganeti_htools.cli.ctl import commands
from ganeti_htools.cli.ctl.commands import Add, call, show
from ganeti_htools.cli.report.layout import fitting_table
from ganeti_htools.cli.terminal.arguments import amount, count, duration, number
from ganeti_htools.client import CallRefusedError, Daemon, Refusal
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.resource_classes import VCPU, is_own
from ganeti_htools.model.wording import moment

_PATIENCE = 30.0  # seconds; the database may keep the daemon waiting
_SETTING = 90.0  # seconds; a job sets the tag
_TRIES = 10  # of a claim of the best candidate, while other clients are first
_COUNTS = {
    "total": "set the total amount",
    "reserved": "keep this amount free of allocations",
    "min_unit": "set the smallest amount of one allocation",
    "max_unit": "set the largest amount of one allocation, or none",
    "step_size": "set the step: amounts must be multiples of it",
}
_SET = " ".join(
    (*(f"[--{name.replace('_', '-')} AMOUNT]" for name in _COUNTS), "[--allocation-ratio X]", "[--remove]")
)
_ANY = "none"  # as the largest amount
_FIGURES = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio", "capacity")


def declare(add: Add) -> None:
    asking = partial(commands.asking, patience=_PATIENCE)
    add("providers", asking("providers", providers), "List the nodes and pools.")
    inventory = add(
        "inventory",
        lambda options: show(options, _inventory(options), inventories),
        "Show the inventories of nodes and pools, or change them.",
    )
    inventory.usage = f"htoolsctl inventory [--json] [--wide] [PROVIDER | set PROVIDER CLASS {_SET}]"
    inventory.add_argument("words", metavar="PROVIDER", nargs="*", help="a node or pool; all without it")
    for name, meaning in _COUNTS.items():
        inventory.add_argument(f"--{name.replace('_', '-')}", metavar="AMOUNT", help=meaning)
    inventory.add_argument("--allocation-ratio", metavar="X", type=number, help="set the overcommit factor")
    inventory.flag("--remove", "remove this inventory, unless it is in use")
    usage = add(
        "usage", asking("usage", usages, "provider"), "Show how much of the inventories is allocated."
    )
    usage.add_argument("provider", metavar="PROVIDER", nargs="?", help="a node or pool; all without it")
    held = asking("allocations", allocations, "consumer")
    command = add("allocations", held, "Show the allocations of consumers.")
    command.add_argument("consumer", metavar="INSTANCE", nargs="?", help="a consumer; all without it")
    claim = add(
        "claim",
        lambda options: show(options, _claim(options), allocations),
        "Allocate resources to a consumer; replaces its earlier claim.",
    )
    claim.usage = (
        "htoolsctl claim [--seconds TIME] [--generation N] [--json] INSTANCE PROVIDER:CLASS=AMOUNT..."
        " | --any [--group GROUP] CLASS=AMOUNT..."
    )
    claim.add_argument("consumer", metavar="INSTANCE", help="the consumer")
    claim.add_argument(
        "amounts",
        metavar="PROVIDER:CLASS=AMOUNT",
        nargs="+",
        help="an amount of a resource class of a node or pool; with --any of the best candidate",
    )
    claim.flag("--any", "claim the first of the candidates")
    claim.add_argument("--generation", metavar="N", type=count, help="only if the consumer has it; 0: if new")
    claim.add_argument(
        "--seconds", metavar="TIME", type=duration, help="end the claim after this time, like 1h"
    )
    candidates = add(
        "candidates",
        lambda options: show(options, _candidates(options), candidate_table),
        "List the nodes and pools that have room for amounts, the best first.",
    )
    candidates.add_argument(
        "amounts", metavar="CLASS=AMOUNT", nargs="+", help="an amount of a resource class"
    )
    for command in (claim, candidates):
        command.add_argument("--group", metavar="GROUP", help="only nodes of this node group")
    release = add("release", asking("release", released, "consumer"), "End a claim.")
    release.add_argument("consumer", metavar="INSTANCE", help="the consumer of the claim")


def _inventory(options: Namespace) -> Any:
    keys = (*_COUNTS, "allocation_ratio")
    given: dict[str, Any] = {key: getattr(options, key) for key in keys if getattr(options, key) is not None}
    given |= {"remove": True} if options.remove else {}
    match options.words:
        case ["set", provider, resource_class] if given:
            changes = _amounts(options, resource_class, given)
            (found,) = call(options, "inventory", {"provider": provider}, _PATIENCE)
            arguments = {
                "provider": found["uuid"],
                "generation": found["generation"],
                "resource_class": resource_class,
                **changes,
            }
            # A largest amount of None means that there is none.
            return Daemon(options.socket).call("set_inventory", arguments, _SETTING)
        case [] | [_] if not given:
            provider = next(iter(options.words), None)
            return call(options, "inventory", {"provider": provider}, _PATIENCE)
    return options.parser.error("expected nothing, a PROVIDER, or set PROVIDER CLASS with figures")


def _amounts(options: Namespace, resource_class: str, given: dict[str, Any]) -> dict[str, Any]:
    """Read those arguments that are amounts of a resource class. Ends the program for a wrong one."""
    read = dict(given)
    for name in _COUNTS.keys() & given.keys():
        try:
            unlimited = name == "max_unit" and given[name] == _ANY
            read[name] = None if unlimited else amount(resource_class, given[name])
        except ArgumentTypeError as error:
            options.parser.error(f"argument --{name.replace('_', '-')}: {error}")
    return read


def _claim(options: Namespace) -> Any:
    if options.any:
        return _claim_best(options)
    if options.group is not None:
        return options.parser.error("--group: expected --any")
    wanted: dict[str, dict[str, int]] = {}
    for text in options.amounts:
        place, _, figure = text.rpartition("=")
        provider, _, resource_class = place.rpartition(":")
        if not provider or not resource_class:
            return options.parser.error(f"expected PROVIDER:CLASS=AMOUNT, got {text!r}")
        amounts = wanted.setdefault(provider, {})
        if resource_class in amounts:
            return options.parser.error(f"{provider}:{resource_class} is named twice")
        amounts[resource_class] = _figure(options, text, resource_class, figure)
    return call(options, "claim", _claim_of(options) | {"allocations": wanted}, _PATIENCE)


def _claim_best(options: Namespace) -> Any:
    """Claim the first candidate; look again if another client was first."""
    for attempt in range(1, _TRIES + 1):
        found = _candidates(options, options.consumer)
        if not found:
            raise HtoolsError("no node or pool has room for this claim")
        best = found[0]["allocations"]
        arguments = _claim_of(options) | {
            "allocations": {each["provider"]: each["resources"] for each in best},
            "generations": {each["provider"]: each["generation"] for each in best},
        }
        try:
            return call(options, "claim", arguments, _PATIENCE)
        except CallRefusedError as refused:
            if refused.kind != Refusal.CONFLICT or options.generation is not None or attempt == _TRIES:
                raise
    raise AssertionError


def _claim_of(options: Namespace) -> dict[str, Any]:
    """Return the arguments of a claim that are not about its amounts."""
    given = {"consumer": options.consumer, "seconds": options.seconds}
    return given | {"consumer_generation": options.generation}


def _candidates(options: Namespace, consumer: str | None = None) -> Any:
    wanted: dict[str, int] = {}
    for text in options.amounts:
        resource_class, _, figure = text.rpartition("=")
        if not resource_class or ":" in resource_class:
            return options.parser.error(f"expected CLASS=AMOUNT, got {text!r}")
        if resource_class in wanted:
            return options.parser.error(f"{resource_class} is named twice")
        wanted[resource_class] = _figure(options, text, resource_class, figure)
    arguments = {"resources": wanted, "group": options.group, "consumer": consumer}
    return call(options, "candidates", arguments, _PATIENCE)


def _figure(options: Namespace, text: str, resource_class: str, figure: str) -> int:
    """Read an amount of a resource class. Ends the program for a wrong one."""
    try:
        return amount(resource_class, figure)
    except ArgumentTypeError as error:
        return int(options.parser.error(f"argument {text!r}: {error}"))


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


def candidate_table(told: Any) -> str:
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
    facts += ["not in Ganeti yet"] * consumer["pending"] + ["exceeds the capacity"] * consumer[
        "over_capacity"
    ]
    if consumer["expires"] is not None:
        facts.append(f"until {moment(consumer['expires'])}")
    yield f"{consumer['name']} ({', '.join(facts)})"
    yield from (f"  {_allocation(each)}" for each in consumer["allocations"])
    if consumer.get("replaced"):
        yield f"  in place of {'; '.join(map(_allocation, consumer['replaced']))}"


def _allocation(allocation: Mapping[str, Any]) -> str:
    amounts = ", ".join(f"{name} {used}" for name, used in allocation["resources"].items())
    return f"{allocation['name']}: {amounts}"


def _shown(figure: int | float | None) -> str:
    return "-" if figure is None else f"{figure:.15g}"


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], nothing: str, text: int = 1) -> str:
    """Lay out a table; its columns from ``text`` on are numbers, except UUIDs."""
    numeric = [place >= text and name not in ("UUID", "Hosts") for place, name in enumerate(header)]
    return fitting_table(header, rows, numeric, labels=text).rstrip("\n") if rows else nothing
