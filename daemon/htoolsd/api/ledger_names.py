"""Names of providers and consumers in calls: a uuid, a full name, or the name in this cluster.

All functions raise LedgerError.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from htoolsd.store.records import (
    Consumer,
    LedgerError,
    Provider,
    UnknownError,
    consumer_uuid,
    full_name,
    provider_uuid,
)

if TYPE_CHECKING:
    from htoolsd.store.ledger import Ledger

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Named = TypeVar("Named", Provider, Consumer)


def provider(ledger: "Ledger", name: str, cluster: str | None) -> Provider:
    """Return the provider of a name, or of a name's beginning up to a dot."""
    return _find("resource provider", ledger.providers, _uuids(name, cluster, provider_uuid), name)


def consumer(ledger: "Ledger", name: str, cluster: str | None) -> Consumer:
    """Return the consumer of a name, or of a name's beginning up to a dot."""
    return _find("consumer", ledger.consumers, _uuids(name, cluster, consumer_uuid), name)


def new_consumer(name: str, cluster: str | None) -> tuple[str, str]:
    """Return the uuid and full name of a consumer that need not exist."""
    if "/" not in name:
        if cluster is None:
            raise LedgerError(
                f"consumer: expected CLUSTER/{name}, because the name of this cluster is not known yet"
            )
        name = full_name(cluster, name)
    return consumer_uuid(name), name


def _uuids(name: str, cluster: str | None, uuid_of: Callable[[str], str]) -> Iterable[str]:
    if _UUID.fullmatch(name):
        yield name
    else:
        yield uuid_of(name)
        if cluster is not None:
            yield uuid_of(full_name(cluster, name))


def _find(what: str, read: Callable[..., Sequence[Named]], uuids: Iterable[str], name: str) -> Named:
    for uuid in uuids:
        for each in read(uuid):
            return each
    found = [each for each in read() if f"/{each.name}".partition(f"/{name}.")[1]]
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownError(f"{name} is ambiguous: {found[0].name} or {found[1].name}")
    raise UnknownError(f"there is no {what} {name}")
