"""What the ledger should say of claims. Pure functions."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.types import Status
from htoolsd.claims.claim import Claim
from htoolsd.claims.kept import told
from htoolsd.ledger.following import Agreed
from htoolsd.ledger.identities import consumer_uuid, full_name
from htoolsd.ledger.offers import Places
from htoolsd.ledger.records import Allocations, Consumer
from htoolsd.ledger.uses import uses_of


class Entry(NamedTuple):
    """A consumer and what it is promised."""

    consumer: Consumer
    allocations: Allocations


def entry_of(claim: Claim, row: Instance | None, view: Agreed, expires: float) -> Entry:
    """What the ledger should say of a claim that ``expires`` (seconds of the epoch).

    ``row`` is the instance if it is there already: wherever it is, a new one is still to take its memory, and
    one that moves has what it had and what it is to have.
    """
    places = view.said.places
    name = full_name(places.cluster, claim.promise.name)
    wanted = _counted(_wanted(claim, row, places), view.contents.inventories)
    consumer = Consumer(consumer_uuid(name), name, "instance", expires=expires, promised=told(claim))
    return Entry(consumer, wanted)


def _wanted(claim: Claim, row: Instance | None, places: Places) -> Allocations:
    promised = claim.promise.row
    if row is None:
        return uses_of(promised, places)
    if claim.promise.new:
        return uses_of(replace(row, status=Status.RUNNING) if row.status is Status.DOWN else row, places)
    both = uses_of(row, places), uses_of(replace(promised, status=row.status), places)
    return {
        provider: {
            name: max(each.get(provider, {}).get(name, 0) for each in both)
            for name in {name for each in both for name in each.get(provider, ())}
        }
        for provider in {**both[0], **both[1]}
    }


def _counted(wanted: Allocations, offered: Mapping[str, Collection[str]]) -> Allocations:
    """What is wanted of providers and classes that there are: nothing limits the others."""
    found = {
        provider: {name: amount for name, amount in amounts.items() if name in offered.get(provider, ())}
        for provider, amounts in wanted.items()
    }
    return {provider: amounts for provider, amounts in found.items() if amounts}
