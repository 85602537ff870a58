"""A ledger that follows a cluster through events equals one that gets only the final cluster."""

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.types import Status
from htoolsd.config.ledger import file_url
from htoolsd.follow.diff import LedgerUpdater
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import Consumer, consumer_uuid
from tests.support.ledgers import standing
from tests.support.rows import rows
from tests.support.storage_units import case_with_units

NAME = "c1"


@contextmanager
def opened() -> Iterator[Ledger]:
    with tempfile.TemporaryDirectory() as directory:
        ledger = Ledger(file_url(directory))
        try:
            yield ledger
        finally:
            ledger.close()


@dataclass
class World:
    """A cluster, the ledger that follows it, and the updater between them."""

    rng: random.Random
    cluster: Cluster
    ledger: Ledger
    telling: LedgerUpdater

    def some(self) -> tuple[int, Instance]:
        """Return a random instance with its position."""
        place = self.rng.randrange(len(self.cluster.instances))
        return place, self.cluster.instances[place]

    def put(self, place: int, *new: Instance) -> None:
        before, after = self.cluster.instances[:place], self.cluster.instances[place + 1 :]
        self.cluster = replace(self.cluster, instances=(*before, *new, *after))


def changes_size(world: World) -> None:
    place, row = world.some()
    world.put(place, replace(row, mem=row.mem + world.rng.randrange(100), vcpus=world.rng.randrange(1, 9)))


def starts_or_stops(world: World) -> None:
    place, row = world.some()
    world.put(place, replace(row, status=world.rng.choice(list(Status))))


def vanishes(world: World) -> None:
    place, _ = world.some()
    if len(world.cluster.instances) > 1:
        world.put(place)


def is_renamed(world: World) -> None:
    place, row = world.some()
    world.put(place, replace(row, name=f"{row.name}x"))


def fails_over(world: World) -> None:
    place, row = world.some()
    if row.snode is not None:
        world.put(place, replace(row, pnode=row.snode, snode=row.pnode))


def a_node_grows(world: World) -> None:
    nodes = list(world.cluster.nodes)
    place = world.rng.randrange(len(nodes))
    if nodes[place].t_mem:
        nodes[place] = replace(nodes[place], t_mem=nodes[place].t_mem + 1024)
        world.cluster = replace(world.cluster, nodes=tuple(nodes))


def the_daemon_restarts(world: World) -> None:
    world.telling = LedgerUpdater()


def somebody_is_promised_something(world: World) -> None:
    _, row = world.some()
    name = f"{NAME}/{world.rng.choice([row.name, 'new'])}"
    provider = world.rng.choice(world.ledger.providers())
    consumer = Consumer(consumer_uuid(name), name, "instance", promised="{}")
    world.ledger.claim(consumer, {provider.uuid: {"VCPU": 1}}, {}, over_capacity=True)


def promises_end(world: World) -> None:
    for each in world.ledger.consumers():
        if each.promised is not None:
            world.ledger.release(each)


def something_is_reserved(world: World) -> None:
    provider = world.rng.choice(world.ledger.providers())
    there = standing(world.ledger, provider.uuid).inventories
    if there:
        name = world.rng.choice(sorted(there))
        reserved = replace(there[name], reserved=world.rng.randint(0, there[name].total))
        world.ledger.set_inventory(provider.uuid, provider.generation, name, reserved)


EVENTS: list[Callable[[World], None]] = [
    changes_size,
    starts_or_stops,
    vanishes,
    is_renamed,
    fails_over,
    a_node_grows,
    the_daemon_restarts,
    somebody_is_promised_something,
    promises_end,
    something_is_reserved,
]


def said(ledger: Ledger) -> tuple[Mapping[str, Any], ...]:
    """Return a ledger's content without generations and administrators' figures."""
    found = ledger.snapshot()
    inventories = {
        uuid: {name: (each.total, each.allocation_ratio) for name, each in there.items() if each.total}
        for uuid, there in found.inventories.items()
    }
    names = {uuid: (each.name, each.can_host) for uuid, each in found.providers.items()}
    return names, inventories, {uuid: each.name for uuid, each in found.consumers.items()}, found.allocations


@settings(max_examples=8)
@given(st.integers(0, 1 << 30), st.lists(st.sampled_from(EVENTS), max_size=25))
def test_ledger_depends_only_on_the_last_cluster(seed: int, events: list[Callable[[World], None]]) -> None:
    start = rows(case_with_units(seed).data)
    with opened() as ledger, opened() as other:
        other_cluster = replace(start, instances=start.instances[:3])
        LedgerUpdater().apply(ledger, other_cluster, "c2")
        world = World(random.Random(seed), start, ledger, LedgerUpdater())
        world.telling.apply(ledger, world.cluster, NAME)
        generations = {each.uuid: each.generation for each in ledger.providers()}
        for event in events:
            if world.cluster.instances:
                event(world)
            synced = world.telling.apply(ledger, world.cluster, NAME)
            assert synced.snapshot == ledger.snapshot()
            now = {each.uuid: each.generation for each in ledger.providers()}
            assert all(now[uuid] >= generation for uuid, generation in generations.items() if uuid in now)
            generations = now
        promises_end(world)
        world.telling.apply(ledger, world.cluster, NAME)
        LedgerUpdater().apply(other, other_cluster, "c2")
        LedgerUpdater().apply(other, world.cluster, NAME)
        assert said(ledger) == said(other)
