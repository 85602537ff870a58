"""Plain data of the ledger: providers, consumers, allocations, their names, and the errors.

The terms are those of OpenStack Placement.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from ganeti_htools.model.errors import HtoolsError, on_one_line
from ganeti_htools.model.inventory import Inventory

Kind = Literal["node", "instance", "plan", "claim"]
# Kinds of consumers that exist in Ganeti, unless their resources are only promised.
EXISTING_KINDS: tuple[Kind, ...] = ("node", "instance")
# Amounts by resource class, and such amounts by the uuid of the provider.
Amounts = Mapping[str, int]
Allocations = Mapping[str, Amounts]

_PROVIDERS = uuid5(NAMESPACE_URL, "urn:htoolsd:resource-provider")
_CONSUMERS = uuid5(NAMESPACE_URL, "urn:htoolsd:consumer")


@dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider: a node, or a storage pool, which cannot host instances."""

    uuid: str
    name: str
    generation: int = 0
    can_host: bool = True


@dataclass(frozen=True, slots=True)
class Consumer:
    """A user of resources: a node itself, an instance, a plan that moves instances, or a claim made by hand.

    ``expires`` is in seconds of the epoch, None: never. ``promised`` is JSON, None for a consumer that exists
    in Ganeti. ``over_capacity`` marks a claim that exceeds the capacity of a provider.
    In a request a ``generation`` of None is not compared, and 0 stands for a consumer without an entry.
    """

    uuid: str
    name: str
    kind: Kind
    generation: int | None = None
    expires: float | None = None
    promised: str | None = None
    over_capacity: bool = False

    @property
    def is_claim(self) -> bool:
        """Whether the resources of the consumer are claimed, not used by something that exists in Ganeti."""
        return self.promised is not None or self.kind not in EXISTING_KINDS


class LedgerEntry(NamedTuple):
    """A consumer and its allocations."""

    consumer: Consumer
    allocations: Allocations


@dataclass(frozen=True, slots=True)
class ProviderUsage:
    """A provider with its inventories, and the amounts that all consumers together use, by class."""

    provider: Provider
    inventories: Mapping[str, Inventory]
    used: Amounts


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """The content of the ledger at one moment, by uuid; allocations by the uuid of the consumer."""

    providers: Mapping[str, Provider]
    inventories: Mapping[str, Mapping[str, Inventory]]
    consumers: Mapping[str, Consumer]
    allocations: Mapping[str, Allocations]


@dataclass(frozen=True, slots=True)
class LedgerChanges:
    """Changes that bring the ledger in step with a cluster. Everything that is not named stays.

    ``providers`` are new, renamed, or changed in whether they host instances. ``lost_providers`` (uuids) are
    deleted with their inventories and allocations. ``inventories``, by provider and class, set ``total`` and
    ``allocation_ratio``, and all figures of those in tags; all else is the administrator's. None removes the
    inventory. ``allocations`` replace all that the consumer had; one without any is deleted.
    """

    providers: tuple[Provider, ...] = ()
    lost_providers: tuple[str, ...] = ()
    inventories: Mapping[str, Mapping[str, Inventory | None]] = field(default_factory=dict)
    allocations: tuple[LedgerEntry, ...] = ()


class LedgerError(HtoolsError):
    """A refusal or failure of the ledger; the text is one line."""

    def __init__(self, text: str) -> None:
        super().__init__(on_one_line(text))


class UnavailableError(LedgerError):
    """The database cannot be used: missing, locked, full, damaged, or written by a newer program."""


class DamagedError(UnavailableError):
    """The database has content that no htoolsd has written."""


class UnknownError(LedgerError):
    """A provider or consumer that the ledger does not have."""


class ConflictError(LedgerError):
    """Another client was first: a generation on which the request rests has passed."""


class CapacityError(LedgerError):
    """A provider lacks the requested amount."""


def full_name(cluster: str, name: str) -> str:
    """Return the name in the ledger of a node, a pool (TYPE/KEY) or an instance of a cluster."""
    return f"{cluster}/{name}"


def plan_name(cluster: str, plan: str) -> str:
    """Return the name in the ledger of a plan. No name of an instance has a second slash."""
    return full_name(cluster, f"plan/{plan}")


def provider_uuid(name: str) -> str:
    """Return the uuid of a resource provider by its name. Every daemon computes the same uuid.

    A pool that clusters share has a name without a cluster.
    """
    return str(uuid5(_PROVIDERS, name))


def consumer_uuid(name: str) -> str:
    """Return the uuid of a consumer by its name. Every daemon computes the same uuid."""
    return str(uuid5(_CONSUMERS, name))
