"""Ledger entries of claims: their content, how they are written, and how they are found again."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from ganeti_htools.model.types import Status
from htoolsd.claims.claim import Claim
from htoolsd.claims.serialization import to_json
from htoolsd.follow.desired_state import SyncedState
from htoolsd.follow.diff import of_known_classes
from htoolsd.follow.resources import instance_use, largest_use
from htoolsd.store.records import Allocations, Consumer, LedgerEntry, consumer_uuid, full_name
from htoolsd.store.worker import LedgerWorker

if TYPE_CHECKING:  # importing SQLAlchemy takes long
    from htoolsd.store.ledger import Ledger

_log = structlog.get_logger()


def ledger_entry(claim: Claim, synced: SyncedState, expires: float) -> LedgerEntry:
    """Return the entry of a claim that ``expires`` (seconds of the epoch)."""
    name = full_name(synced.desired.resources.cluster, claim.promise.name)
    wanted = of_known_classes(_claimed(claim, synced), synced.snapshot.inventories)
    consumer = Consumer(consumer_uuid(name), name, "instance", expires=expires, promised=to_json(claim))
    return LedgerEntry(consumer, wanted)


def _claimed(claim: Claim, synced: SyncedState) -> Allocations:
    """Return what a claim needs. A moving instance has both its old and its new resources.

    A new instance that exists still has to take its memory, wherever it is.
    """
    resources, there = synced.desired.resources, synced.desired.instances.get(claim.promise.name)
    if there is None:
        return instance_use(claim.promise.row, resources)
    row = there.row
    if claim.promise.new:
        running = replace(row, status=Status.RUNNING) if row.status is Status.DOWN else row
        return instance_use(running, resources)
    return largest_use([there.entry.allocations, instance_use(claim.promise.fulfilled(row), resources)])


class ClaimEntries:
    """The entries of a daemon's claims in the ledger, by instance, as far as the daemon knows.

    An entry whose write may have failed has neither promise nor allocations here, so it is written again, or
    settled.
    """

    def __init__(self, ledger: LedgerWorker) -> None:
        self._ledger = ledger
        self._known = dict[str, LedgerEntry]()
        self._opened = 0  # of the ledger, when the entries were known

    @property
    def names(self) -> Collection[str]:
        """The instances with entries."""
        return self._known.keys()

    def forget(self) -> None:
        """Know no entries: another daemon writes them."""
        self._known = {}

    async def claim(
        self, entries: Mapping[str, LedgerEntry], generations: Mapping[str, int], limit: float
    ) -> None:
        """Write entries while the providers have these generations.

        Raises ConflictError, CapacityError and other LedgerErrors.
        """
        self._doubt(entries)

        def write(ledger: "Ledger") -> None:
            expected = dict(generations)
            for consumer, allocations in entries.values():
                known = {uuid: expected[uuid] for uuid in allocations if uuid in expected}
                ledger.claim(consumer, allocations, known)
                expected |= {uuid: generation + 1 for uuid, generation in known.items()}

        await self._ledger.claims.do(write, limit, probe=False)
        self._known |= entries

    async def write_missing(self, wanted: Mapping[str, LedgerEntry], ended: Collection[str]) -> bool:
        """Write what differs from the wanted entries, even beyond the capacity, and settle ended ones.

        Returns whether there was anything to do. Raises LedgerError.
        """
        if self._opened != self._ledger.claims.opened:  # it may be another ledger
            self._opened = self._ledger.claims.opened
            self._doubt(self._known)
        missing = {name: entry for name, entry in wanted.items() if not self._is_written(name, entry)}
        if not missing and not ended:
            return False
        settled = [self._known[name].consumer for name in sorted(ended)]
        self._doubt(missing)
        for consumer in await self._ledger.claims.do(
            lambda ledger: write_beyond(ledger, missing.values(), settled)
        ):
            _log.warning("claim exceeds the capacity", consumer=consumer.name)
        for name in ended:
            self._known.pop(name, None)
        self._known |= missing
        return True

    async def read(self, cluster: str) -> dict[str, Consumer]:
        """Return the claims of an earlier daemon, by instance, without those known here.

        They are known from now on. Raises LedgerError.
        """
        own = full_name(cluster, "")

        def read(ledger: "Ledger") -> list[LedgerEntry]:
            return [
                LedgerEntry(each, ledger.snapshot(each.uuid).allocations.get(each.uuid, {}))
                for each in ledger.consumers()
                if each.promised is not None and each.kind == "instance" and each.name.startswith(own)
            ]

        found = {entry.consumer.name.removeprefix(own): entry for entry in await self._ledger.claims.do(read)}
        self._opened = self._ledger.claims.opened
        new = {name: entry for name, entry in found.items() if name not in self._known}
        self._known |= new
        return {name: entry.consumer for name, entry in new.items()}

    def _doubt(self, entries: Mapping[str, LedgerEntry]) -> None:
        """Note that it is unknown whether entries are written."""
        self._known |= {
            name: LedgerEntry(replace(entry.consumer, promised=None), {}) for name, entry in entries.items()
        }

    def _is_written(self, name: str, entry: LedgerEntry) -> bool:
        """Whether an entry is written. Its expiry does not count, since that is put off all the time."""
        known = self._known.get(name)
        if known is None or entry.allocations != known.allocations:
            return False
        return entry.consumer.promised == known.consumer.promised


def write_beyond(
    ledger: "Ledger", entries: Iterable[LedgerEntry], ended: Iterable[Consumer]
) -> list[Consumer]:
    """Write claims even beyond the capacity, and settle ended ones; return those that exceed the capacity.

    Raises LedgerError.
    """
    for consumer in ended:
        ledger.settle(consumer)
    written = [ledger.claim(*entry, {}, over_capacity=True) for entry in entries]
    return [consumer for consumer in written if consumer.over_capacity]
