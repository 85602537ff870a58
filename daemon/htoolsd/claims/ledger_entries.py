"""Ledger entries of claims: their content, how they are written, and how they are found again."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.types import Status
from htoolsd.claims.claim import Claim
from htoolsd.claims.serialization import to_json
from htoolsd.follow.desired_state import SyncedState
from htoolsd.follow.diff import of_known_classes
from htoolsd.follow.resources import ClusterResources, instance_use, largest_use
from htoolsd.store.records import Allocations, Consumer, LedgerEntry, consumer_uuid, full_name

if TYPE_CHECKING:  # importing SQLAlchemy takes long
    from htoolsd.store.ledger import Ledger


def ledger_entry(claim: Claim, row: Instance | None, synced: SyncedState, expires: float) -> LedgerEntry:
    """Return the entry of a claim that ``expires`` (seconds of the epoch).

    ``row`` is the instance if it already exists. A new instance still has to take its memory, wherever it is.
    A moving instance has both its old and its new resources.
    """
    resources = synced.desired.resources
    name = full_name(resources.cluster, claim.promise.name)
    wanted = of_known_classes(_claimed(claim, row, resources), synced.snapshot.inventories)
    consumer = Consumer(consumer_uuid(name), name, "instance", expires=expires, promised=to_json(claim))
    return LedgerEntry(consumer, wanted)


def _claimed(claim: Claim, row: Instance | None, resources: ClusterResources) -> Allocations:
    if row is None:
        return instance_use(claim.promise.row, resources)
    if claim.promise.new:
        running = replace(row, status=Status.RUNNING) if row.status is Status.DOWN else row
        return instance_use(running, resources)
    return largest_use([instance_use(row, resources), instance_use(claim.promise.fulfilled(row), resources)])


def is_written(entry: LedgerEntry, written: LedgerEntry | None) -> bool:
    """Whether the written entry is up to date.

    Its expiry does not count, since that is put off all the time.
    """
    if written is None or entry.allocations != written.allocations:
        return False
    return entry.consumer.promised == written.consumer.promised


def unconfirmed(entry: LedgerEntry) -> LedgerEntry:
    """Return the entry of a claim whose write may have failed. It is written again, or released."""
    return LedgerEntry(replace(entry.consumer, promised=None), {})


def write_claims(ledger: "Ledger", entries: Iterable[LedgerEntry], generations: Mapping[str, int]) -> None:
    """Write claims in order, while the providers have the given generations.

    Raises ConflictError, CapacityError and other LedgerErrors.
    """
    expected = dict(generations)
    for consumer, allocations in entries:
        known = {uuid: expected[uuid] for uuid in allocations if uuid in expected}
        ledger.claim(consumer, allocations, known)
        expected |= {uuid: generation + 1 for uuid, generation in known.items()}


def catch_up(ledger: "Ledger", entries: Iterable[LedgerEntry], ended: Iterable[Consumer]) -> list[Consumer]:
    """Write claims even beyond the capacity, and settle ended ones; return those that exceed the capacity.

    Raises LedgerError.
    """
    for consumer in ended:
        ledger.settle(consumer)
    written = [ledger.claim(*entry, {}, beyond=True) for entry in entries]
    return [consumer for consumer in written if consumer.beyond]


def read_entries(ledger: "Ledger", cluster: str) -> list[LedgerEntry]:
    """Return the entries of a cluster's claims that an earlier daemon wrote. Raises LedgerError."""
    own = full_name(cluster, "")
    return [
        LedgerEntry(each, ledger.snapshot(each.uuid).allocations.get(each.uuid, {}))
        for each in ledger.consumers()
        if each.promised is not None and each.kind == "instance" and each.name.startswith(own)
    ]
