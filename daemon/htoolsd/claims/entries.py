"""What the ledger should say of claims; and how it is written there, and found again."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.types import Status
from htoolsd.claims.claim import Claim
from htoolsd.claims.kept import told
from htoolsd.ledger.following import Agreed, of_classes
from htoolsd.ledger.identities import consumer_uuid, full_name
from htoolsd.ledger.offers import Places
from htoolsd.ledger.records import Allocations, Consumer
from htoolsd.ledger.uses import most, uses_of

if TYPE_CHECKING:
    from htoolsd.ledger.ledger import Ledger


class Entry(NamedTuple):
    """A consumer and what it is promised."""

    consumer: Consumer
    allocations: Allocations


def entry_of(claim: Claim, row: Instance | None, agreed: Agreed, expires: float) -> Entry:
    """What the ledger should say of a claim that ``expires`` (seconds of the epoch).

    ``row`` is the instance if it is there already: wherever it is, a new one is still to take its memory, and
    one that moves has what it had and what it is to have.
    """
    places = agreed.said.places
    name = full_name(places.cluster, claim.promise.name)
    wanted = of_classes(_wanted(claim, row, places), agreed.contents.inventories)
    consumer = Consumer(consumer_uuid(name), name, "instance", expires=expires, promised=told(claim))
    return Entry(consumer, wanted)


def _wanted(claim: Claim, row: Instance | None, places: Places) -> Allocations:
    promised = claim.promise.row
    if row is None:
        return uses_of(promised, places)
    if claim.promise.new:
        return uses_of(replace(row, status=Status.RUNNING) if row.status is Status.DOWN else row, places)
    return most([uses_of(row, places), uses_of(claim.promise.kept_by(row), places)])


def same(entry: Entry, written: Entry | None) -> bool:
    """Whether a claim is written as it is, its end aside, which is put off all the time."""
    if written is None or entry.allocations != written.allocations:
        return False
    return entry.consumer.promised == written.consumer.promised


def perhaps(entry: Entry) -> Entry:
    """A claim of which it is not known whether it is written: it is written again, or released."""
    return Entry(replace(entry.consumer, promised=None), {})


def write(ledger: "Ledger", entries: Iterable[Entry], generations: Mapping[str, int]) -> None:
    """Write claims, one after the other, as long as the providers that they touch have these generations.

    Raises ConflictError, CapacityError and other LedgerErrors.
    """
    now = dict(generations)
    for consumer, allocations in entries:
        ledger.claim(consumer, allocations, {uuid: now[uuid] for uuid in allocations if uuid in now})
        now |= {uuid: now[uuid] + 1 for uuid in allocations if uuid in now}


def make_up(ledger: "Ledger", entries: Iterable[Entry], ended: Iterable[Consumer]) -> list[Consumer]:
    """Write claims whatever there is, and release those that have ended; those that exceed what there is.

    Raises LedgerError.
    """
    for consumer in ended:
        ledger.release(consumer.uuid)
    written = [ledger.claim(*entry, {}, beyond=True) for entry in entries]
    return [consumer for consumer in written if consumer.beyond]


def left(ledger: "Ledger", cluster: str) -> list[Entry]:
    """The claims of a cluster that an earlier daemon has left. Raises LedgerError."""
    own = full_name(cluster, "")
    return [
        Entry(each, ledger.contents(each.uuid).allocations.get(each.uuid, {}))
        for each in ledger.consumers()
        if each.promised is not None and each.kind == "instance" and each.name.startswith(own)
    ]
