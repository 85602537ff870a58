"""The commands of ``htoolsctl`` about the ledger."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import Any

from ganeti_htools.cli.report import ledger
from ganeti_htools.cli.terminal.arguments import amount, count, duration, number
from ganeti_htools.client.calls import CallRefusedError, ask
from ganeti_htools.client.protocol import Refusal
from ganeti_htools.model.errors import HtoolsError

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

    add("providers", asking("providers", ledger.providers), "List the nodes and pools.")
    inventory = add(
        "inventory",
        lambda options: show(options, _inventory(options), ledger.inventories),
        "Show the inventories of nodes and pools, or change them.",
    )
    inventory.usage = f"htoolsctl inventory [--json] [--wide] [PROVIDER | set PROVIDER CLASS {_SET}]"
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
    claim.add_argument("--any", action="store_true", help="claim the first of the candidates")
    claim.add_argument("--generation", metavar="N", type=count, help="only if the consumer has it; 0: if new")
    claim.add_argument(
        "--seconds", metavar="TIME", type=duration, help="end the claim after this time, like 1h"
    )
    candidates = add(
        "candidates",
        lambda options: show(options, _candidates(options), ledger.candidates),
        "List the nodes and pools that have room for amounts, the best first.",
    )
    candidates.set_defaults(refuse=candidates.error)
    candidates.add_argument(
        "amounts", metavar="CLASS=AMOUNT", nargs="+", help="an amount of a resource class"
    )
    for command in (claim, candidates):
        command.add_argument("--group", metavar="GROUP", help="only nodes of this node group")
    ended = asking("release", ledger.released, "consumer")
    release = add("release", ended, "End a claim.")
    release.add_argument("consumer", metavar="INSTANCE", help="the consumer of the claim")


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
    if options.any:
        return _claim_best(options)
    if options.group is not None:
        return options.refuse("--group: expected --any")
    wanted: dict[str, dict[str, int]] = {}
    for text in options.amounts:
        place, _, figure = text.rpartition("=")
        provider, _, resource_class = place.rpartition(":")
        if not provider or not resource_class:
            return options.refuse(f"expected PROVIDER:CLASS=AMOUNT, got {text!r}")
        amounts = wanted.setdefault(provider, {})
        if resource_class in amounts:
            return options.refuse(f"{provider}:{resource_class} is named twice")
        amounts[resource_class] = _figure(options, text, resource_class, figure)
    return _ask(options, "claim", _claim_of(options) | {"allocations": wanted})


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
            return _ask(options, "claim", arguments)
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
            return options.refuse(f"expected CLASS=AMOUNT, got {text!r}")
        if resource_class in wanted:
            return options.refuse(f"{resource_class} is named twice")
        wanted[resource_class] = _figure(options, text, resource_class, figure)
    arguments = {"resources": wanted, "group": options.group, "consumer": consumer}
    return _ask(options, "candidates", arguments)


def _figure(options: Namespace, text: str, resource_class: str, figure: str) -> int:
    """Read an amount of a resource class. Ends the program for a wrong one."""
    try:
        return amount(resource_class, figure)
    except ArgumentTypeError as error:
        return int(options.refuse(f"argument {text!r}: {error}"))
