"""The commands of ``htoolsctl`` about the ledger."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import Any

from ganeti_htools.cli.report import ledger
from ganeti_htools.cli.terminal.arguments import count, number
from ganeti_htools.client.calls import ask

_PATIENCE = 30.0  # seconds; the database may keep the daemon waiting
_COUNTS = {
    "total": "how much there is",
    "reserved": "how much of it is not to be allocated",
    "min_unit": "the smallest amount that may be asked for",
    "max_unit": "the largest amount that may be asked for at once, or none",
    "step_size": "what other amounts have to be multiples of",
}
_SET = " ".join(f"[--{name.replace('_', '-')} N]" for name in _COUNTS) + " [--allocation-ratio X] [--remove]"
_ANY = "none"  # as the largest amount

# Adds a command: its name, the function that carries it out, what it does.
Add = Callable[[str, Callable[[Namespace], int], str], ArgumentParser]
# Prints an answer of the daemon by means of a report, or as it is; the exit status.
Print = Callable[[Namespace, Any, Callable[[Any], str]], int]


def declare(add: Add, show: Print) -> None:
    """Add the commands."""

    def asking(method: str, report: Callable[[Any], str], *keys: str) -> Callable[[Namespace], int]:
        """What asks the daemon with those arguments that are given, and prints the answer."""
        return lambda options: show(
            options,
            _ask(options, method, {key: getattr(options, key) for key in keys}),
            report,
        )

    providers = add("providers", asking("providers", ledger.providers), "Lists the nodes and pools.")
    inventory = add(
        "inventory",
        lambda options: show(options, _inventory(options), ledger.inventories),
        "Shows what nodes and pools have, or sets it.",
    )
    inventory.usage = f"htoolsctl inventory [--json] [PROVIDER | set PROVIDER CLASS {_SET}]"
    inventory.set_defaults(refuse=inventory.error)
    inventory.add_argument("words", metavar="PROVIDER", nargs="*", help="a node or pool; all without it")
    for name, meaning in _COUNTS.items():
        read = _most if name == "max_unit" else count
        inventory.add_argument(f"--{name.replace('_', '-')}", metavar="N", type=read, help=meaning)
    inventory.add_argument(
        "--allocation-ratio", metavar="X", type=number, help="how often what is not reserved may be allocated"
    )
    inventory.add_argument("--remove", action="store_true", help="it has none any more")
    usage = add(
        "usage",
        asking("usage", ledger.usages, "provider"),
        "Shows how much is allocated of what nodes and pools have.",
    )
    usage.add_argument("provider", metavar="PROVIDER", nargs="?", help="a node or pool; all without it")
    held = asking("allocations", ledger.allocations, "consumer")
    allocations = add("allocations", held, "Shows what has been allocated to whom.")
    allocations.add_argument("consumer", metavar="INSTANCE", nargs="?", help="a consumer; all without it")
    claim = add(
        "claim",
        lambda options: show(options, _claim(options), ledger.allocations),
        "Allocates resources to a consumer, instead of what it had claimed before.",
    )
    claim.set_defaults(refuse=claim.error)
    claim.add_argument("consumer", metavar="INSTANCE", help="who is to have them")
    claim.add_argument(
        "amounts",
        metavar="PROVIDER:CLASS=N",
        nargs="+",
        type=_amount,
        help="how much of a node's or pool's class",
    )
    claim.add_argument("--seconds", metavar="SECONDS", type=number, help="how long it lasts")
    ended = asking("release", ledger.released, "consumer")
    release = add("release", ended, "Ends a claim.")
    release.add_argument("consumer", metavar="INSTANCE", help="whose claim")
    for command in (providers, inventory, usage, allocations, claim, release):
        command.add_argument("--json", action="store_true", help="print the daemon's answer as JSON")


def _ask(options: Namespace, method: str, arguments: dict[str, Any]) -> Any:
    given = {key: value for key, value in arguments.items() if value is not None}
    return ask(options.socket, method, given, patience=_PATIENCE)


def _inventory(options: Namespace) -> Any:
    keys = (*_COUNTS, "allocation_ratio")
    given = {key: getattr(options, key) for key in keys if getattr(options, key) is not None}
    given |= {"remove": True} if options.remove else {}
    match options.words:
        case ["set", provider, resource_class] if given:
            (found,) = _ask(options, "inventory", {"provider": provider})
            which = {"provider": found["uuid"], "generation": found["generation"]}
            if given.get("max_unit") == _ANY:
                given["max_unit"] = None
            arguments = {**which, "resource_class": resource_class, **given}
            return ask(options.socket, "set_inventory", arguments, patience=_PATIENCE)
        case [] | [_] if not given:
            return _ask(options, "inventory", {"provider": next(iter(options.words), None)})
    return options.refuse("expected nothing, a PROVIDER, or set PROVIDER CLASS with figures")


def _claim(options: Namespace) -> Any:
    wanted: dict[str, dict[str, int]] = {}
    for provider, resource_class, amount in options.amounts:
        if resource_class in wanted.setdefault(provider, {}):
            return options.refuse(f"{provider}:{resource_class} is named twice")
        wanted[provider][resource_class] = amount
    arguments = {"consumer": options.consumer, "allocations": wanted, "seconds": options.seconds}
    return _ask(options, "claim", arguments)


def _amount(text: str) -> tuple[str, str, int]:
    """A provider, a class and an amount. Raises ArgumentTypeError."""
    place, _, amount = text.rpartition("=")
    provider, _, resource_class = place.rpartition(":")
    if not provider or not resource_class:
        raise ArgumentTypeError(f"expected PROVIDER:CLASS=N, got {text!r}")
    return provider, resource_class, count(amount)


def _most(text: str) -> int | str:
    return text if text == _ANY else count(text)
