"""What the ledger does not say yet of what it should. Pure functions.

Ganeti says which providers there are, the total and the ratio of what it counts, and what exists. All else is
left alone: what administrators set, and what has been promised as long as the promise lives.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.resource_classes import is_own
from htoolsd.ledger.identities import full_name
from htoolsd.ledger.offers import Offer
from htoolsd.ledger.records import EXISTING, Allocations, Changes, Consumer, Contents, Provider
from htoolsd.ledger.saying import Statement, Use

_Inventories = Mapping[str, Mapping[str, Inventory | None]]  # by provider and class


class Agreed(NamedTuple):
    """What was said, and what stood in the ledger then; there was no difference."""

    said: Statement
    contents: Contents


def difference(said: Statement, contents: Contents, agreed: Agreed | None = None) -> Changes:
    """What is to be written so that the ledger says what it should.

    What is the same object as when they ``agreed`` is not looked at again. What a shared pool has is written
    by the cluster that has something new to say of it, so two that do not agree do not write all the time.
    """
    before = agreed.said.offers if agreed else {}
    same = agreed is not None and contents.inventories is agreed.contents.inventories
    inventories = {
        uuid: changed
        for uuid, offer in said.offers.items()
        if not (same and before.get(uuid) is offer)
        and (changed := _changed(offer, contents.inventories.get(uuid, {}), before.get(uuid)))
    }
    used = list(
        _allocations(_uses(said, contents, inventories, agreed), contents, _classes(contents, inventories))
    )
    return Changes(
        providers=tuple(_providers(said.offers.values(), contents.providers)),
        lost=tuple(_lost(said, contents)),
        inventories=inventories,
        allocations=tuple((consumer, amounts) for consumer, amounts in used if amounts),
        gone=(*(consumer for consumer, amounts in used if not amounts), *_gone(said, contents)),
    )


def exists(consumer: Consumer) -> bool:
    """Whether a consumer stands for what Ganeti says, and not for a promise."""
    return consumer.promised is None and consumer.kind in EXISTING


def _providers(offers: Iterable[Offer], there: Mapping[str, Provider]) -> Iterator[Provider]:
    """Those that are new, or are called or used otherwise."""
    for each in (offer.provider for offer in offers):
        known = there.get(each.uuid)
        if known is None or (known.name, known.can_host) != (each.name, each.can_host):
            yield each


def _lost(said: Statement, contents: Contents) -> Iterator[str]:
    """The providers of the cluster that are gone, unless somebody has been promised something of them."""
    own = full_name(said.places.cluster, "")
    others = contents.providers.keys() - said.offers.keys()
    gone = {uuid for uuid in others if contents.providers[uuid].name.startswith(own)}
    if gone:
        promises = (uuid for uuid, each in contents.consumers.items() if not exists(each))
        gone -= {provider for uuid in promises for provider in contents.allocations.get(uuid, {})}
    yield from sorted(gone)


def _changed(offer: Offer, had: Mapping[str, Inventory], before: Offer | None) -> dict[str, Inventory | None]:
    """The inventories that a provider is said to have and the ledger does not have so; None: there is none.

    One in which an administrator has set something stays when it is gone, with a total of 0.
    """
    told = offer.inventories
    if told is None or (offer.shared and had and before and told == before.inventories):
        return {}
    found: dict[str, Inventory | None] = {}
    for name, each in told.items():
        old = had.get(name)
        if old is None or (old.total, old.allocation_ratio) != (each.total, each.allocation_ratio):
            found[name] = each
    for name in had.keys() - told.keys():
        old = had[name]
        untouched = old == Inventory(old.total, allocation_ratio=old.allocation_ratio)
        if is_own(name) and (untouched or old.total):
            found[name] = None
    return found


def _classes(contents: Contents, changed: _Inventories) -> Mapping[str, Collection[str]]:
    """Of which classes each provider has an inventory after a change."""
    found: dict[str, Collection[str]] = {uuid: each.keys() for uuid, each in contents.inventories.items()}
    for uuid, each in changed.items():
        dropped = {name for name, inventory in each.items() if inventory is None}
        found[uuid] = {*found.get(uuid, ()), *each} - dropped
    return found


def _uses(said: Statement, contents: Contents, changed: _Inventories, agreed: Agreed | None) -> Iterator[Use]:
    """The uses that are not what they were when there was agreement, or do not stand as they stood."""
    if agreed is None or changed or contents.inventories is not agreed.contents.inventories:
        yield from said.uses.values()
        return
    stood, stands = agreed.contents.allocations, contents.allocations
    for uuid, use in said.uses.items():
        if agreed.said.uses.get(uuid) is not use or stood.get(uuid) is not stands.get(uuid):
            yield use


def _allocations(
    uses: Iterable[Use], contents: Contents, classes: Mapping[str, Collection[str]]
) -> Iterator[Use]:
    """What existing consumers use and the ledger does not say so. What nobody has cannot be allocated."""
    for consumer, amounts in uses:
        known = contents.consumers.get(consumer.uuid)
        if known is None or exists(known):
            wanted = of_classes(amounts, classes)
            if wanted != contents.allocations.get(consumer.uuid, {}):
                yield Use(replace(consumer, generation=known.generation if known else 0), wanted)


def of_classes(used: Allocations, classes: Mapping[str, Collection[str]]) -> Allocations:
    """What is used of providers and classes that there are."""
    found = {
        uuid: {name: amount for name, amount in amounts.items() if name in classes.get(uuid, ())}
        for uuid, amounts in used.items()
    }
    return {uuid: amounts for uuid, amounts in found.items() if amounts}


def _gone(said: Statement, contents: Contents) -> Iterator[Consumer]:
    """The consumers of the cluster that existed and do not any more."""
    own = full_name(said.places.cluster, "")
    for uuid in contents.consumers.keys() - said.uses.keys() - said.offers.keys():
        each = contents.consumers[uuid]
        if each.name.startswith(own) and exists(each):
            yield each
