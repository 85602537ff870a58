"""The commands of ``htoolsctl`` about the ledger."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import Any

from ganeti_htools.cli.report import ledger
from ganeti_htools.cli.terminal.arguments import amount, duration, number
from ganeti_htools.client.calls import ask

_PATIENCE = 30.0  # seconds; the database may keep the daemon waiting
_SETTING = 90.0  # seconds; a job sets the tag
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

# Adds a command: its name, the function that carries it out, what it does.
Add = Callable[[str, Callable[[Namespace], int], str], ArgumentParser]
# Prints an answer of the daemon by means of a report, or as it is; the exit status.
Print = Callable[[Namespace, Any, Callable[[Any], str]], int]


def declare(add: Add, show: Print) -> None:
    """Add the commands."""

    def asking(method: str, report: Callable[[Any], str], *keys: str) -> Callable[[Namespace], int]:
        """Make the function that asks the daemon with the given arguments and prints the answer."""
        return lambda options: show(
            options,
            _ask(options, method, {key: getattr(options, key) for key in keys}),
            report,
        )

    providers = add("providers", asking("providers", ledger.providers), "List the nodes and pools.")
    inventory = add(
        "inventory",
        lambda options: show(options, _inventory(options), ledger.inventories),
        "Show the inventories of nodes and pools, or change them.",
    )
    inventory.usage = f"htoolsctl inventory [--json] [PROVIDER | set PROVIDER CLASS {_SET}]"
    inventory.set_defaults(refuse=inventory.error)
    inventory.add_argument("words", metavar="PROVIDER", nargs="*", help="a node or pool; all without it")
    for name, meaning in _COUNTS.items():
        inventory.add_argument(f"--{name.replace('_', '-')}", metavar="AMOUNT", help=meaning)
    inventory.add_argument("--allocation-ratio", metavar="X", type=number, help="set the overcommit factor")
    inventory.add_argument("--remove", action="store_true", help="remove this inventory, unless it is in use")
    usage = add(
        "usage",
        asking("usage", ledger.usages, "provider"),
        "Show how much of the inventories is allocated.",
    )
    usage.add_argument("provider", metavar="PROVIDER", nargs="?", help="a node or pool; all without it")
    held = asking("allocations", ledger.allocations, "consumer")
    allocations = add("allocations", held, "Show the allocations of consumers.")
    allocations.add_argument("consumer", metavar="INSTANCE", nargs="?", help="a consumer; all without it")
    claim = add(
        "claim",
        lambda options: show(options, _claim(options), ledger.allocations),
        "Allocate resources to a consumer; replaces its earlier claim.",
    )
    claim.set_defaults(refuse=claim.error)
    claim.add_argument("consumer", metavar="INSTANCE", help="the consumer")
    claim.add_argument(
        "amounts",
        metavar="PROVIDER:CLASS=AMOUNT",
        nargs="+",
        type=_amount,
        help="an amount of a resource class of a node or pool",
    )
    claim.add_argument(
        "--seconds", metavar="TIME", type=duration, help="end the claim after this time, like 1h"
    )
    ended = asking("release", ledger.released, "consumer")
    release = add("release", ended, "End a claim.")
    release.add_argument("consumer", metavar="INSTANCE", help="the consumer of the claim")
    for command in (providers, inventory, usage, allocations, claim, release):
        command.add_argument("--json", action="store_true", help="print the daemon's answer as JSON")


def _ask(options: Namespace, method: str, arguments: dict[str, Any]) -> Any:
    given = {key: value for key, value in arguments.items() if value is not None}
    return ask(options.socket, method, given, patience=_PATIENCE)


def _inventory(options: Namespace) -> Any:
    keys = (*_COUNTS, "allocation_ratio")
    given: dict[str, Any] = {key: getattr(options, key) for key in keys if getattr(options, key) is not None}
    given |= {"remove": True} if options.remove else {}
    match options.words:
        case ["set", provider, resource_class] if given:
            changes = _amounts(options, resource_class, given)
            (found,) = _ask(options, "inventory", {"provider": provider})
            arguments = {
                "provider": found["uuid"],
                "generation": found["generation"],
                "resource_class": resource_class,
                **changes,
            }
            return ask(options.socket, "set_inventory", arguments, patience=_SETTING)
        case [] | [_] if not given:
            return _ask(options, "inventory", {"provider": next(iter(options.words), None)})
    return options.refuse("expected nothing, a PROVIDER, or set PROVIDER CLASS with figures")


def _amounts(options: Namespace, resource_class: str, given: dict[str, Any]) -> dict[str, Any]:
    """Read those arguments that are amounts of a resource class. Ends the program for a wrong one."""
    read = dict(given)
    for name in _COUNTS.keys() & given.keys():
        try:
            unlimited = name == "max_unit" and given[name] == _ANY
            read[name] = None if unlimited else amount(resource_class, given[name])
        except ArgumentTypeError as error:
            options.refuse(f"argument --{name.replace('_', '-')}: {error}")
    return read


def _claim(options: Namespace) -> Any:
    wanted: dict[str, dict[str, int]] = {}
    for provider, resource_class, figure in options.amounts:
        if resource_class in wanted.setdefault(provider, {}):
            return options.refuse(f"{provider}:{resource_class} is named twice")
        wanted[provider][resource_class] = figure
    arguments = {"consumer": options.consumer, "allocations": wanted, "seconds": options.seconds}
    return _ask(options, "claim", arguments)


def _amount(text: str) -> tuple[str, str, int]:
    """Read a provider, a class and an amount. Raises ArgumentTypeError."""
    place, _, figure = text.rpartition("=")
    provider, _, resource_class = place.rpartition(":")
    if not provider or not resource_class:
        raise ArgumentTypeError(f"expected PROVIDER:CLASS=AMOUNT, got {text!r}")
    return provider, resource_class, amount(resource_class, figure)
