"""What the ledger is asked and what it answers: plain data, and the errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ganeti_htools.model.errors import HtoolsError, on_one_line
from ganeti_htools.model.inventory import Inventory

Kind = Literal["node", "instance", "plan", "claim"]
# Those of what Ganeti has, unless it is only promised.
EXISTING: tuple[Kind, ...] = ("node", "instance")
# Amounts by resource class, and those by the uuid of the provider.
Amounts = Mapping[str, int]
Allocations = Mapping[str, Amounts]


@dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider: a node, or a pool, which cannot host instances."""

    uuid: str
    name: str
    generation: int = 0
    can_host: bool = True


@dataclass(frozen=True, slots=True)
class Consumer:
    """Who uses resources: a node itself, an instance, a plan that moves some, or whoever claims by hand.

    ``expires`` is seconds of the epoch, None: never; ``promised``, JSON, is None for what exists in Ganeti.
    ``beyond`` marks a claim that was made whatever there was.
    In what is asked, a ``generation`` of None is not compared, and 0 is that of who has nothing yet.
    """

    uuid: str
    name: str
    kind: Kind
    generation: int | None = None
    expires: float | None = None
    promised: str | None = None
    beyond: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """How it stands with a provider: what it has, and what all together use of it, by class."""

    provider: Provider
    inventories: Mapping[str, Inventory]
    used: Amounts


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a consumer uses of a provider (both by uuid)."""

    provider: str
    consumer: str
    resource_class: str
    used: int


@dataclass(frozen=True, slots=True)
class Contents:
    """All that stands in the ledger at one moment, by uuid; allocations by that of the consumer."""

    providers: Mapping[str, Provider]
    inventories: Mapping[str, Mapping[str, Inventory]]
    consumers: Mapping[str, Consumer]
    allocations: Mapping[str, Allocations]


@dataclass(frozen=True, slots=True)
class Changes:
    """What the ledger does not say yet of what exists; what is not named stays.

    ``providers`` are new, or named or to be used otherwise than before; those that are ``lost`` vanish with
    all that stands of them. ``inventories``, by provider and class, give ``total`` and ``allocation_ratio``,
    all else is the administrator's; None: the provider has none any more. ``allocations`` replace all that
    the consumer had; a consumer who is ``gone`` has nothing any more.
    """

    providers: tuple[Provider, ...] = ()
    lost: tuple[str, ...] = ()
    inventories: Mapping[str, Mapping[str, Inventory | None]] = field(default_factory=dict)
    allocations: tuple[tuple[Consumer, Allocations], ...] = ()
    gone: tuple[Consumer, ...] = ()


class LedgerError(HtoolsError):
    """The ledger does not do what is asked; the text is one line."""

    def __init__(self, text: str) -> None:
        super().__init__(on_one_line(text))


class UnavailableError(LedgerError):
    """The database cannot be used: not there, locked, full, damaged, or of a newer program."""


class UnknownError(LedgerError):
    """There is no such provider or consumer."""


class ConflictError(LedgerError):
    """Somebody else was first: what was asked rests on a generation that has passed."""


class CapacityError(LedgerError):
    """A provider does not have what is asked for; ``left`` is what can still be had of the class."""

    def __init__(self, provider: str, resource_class: str, left: int, text: str) -> None:
        super().__init__(f"{provider}: {resource_class}: {text}")
        self.provider = provider
        self.resource_class = resource_class
        self.left = left
