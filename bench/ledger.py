"""What the ledger costs, on SQLite: a claim, and following a cluster."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.timing import SEED, Part, measured
from ganeti_htools.backends import text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.resource_classes import MEMORY, SPINDLES, VCPU
from htoolsd.config.ledger import file_url
from htoolsd.follow.diff import LedgerUpdater
from htoolsd.follow.resources import CountingRules
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import (
    Allocations,
    Consumer,
    LedgerChanges,
    LedgerEntry,
    Provider,
    consumer_uuid,
    provider_uuid,
)
from tests.support.clusters import Shape, cluster
from tests.support.text_format import text as plain

_DISK = "CUSTOM_DISK_MIB_LVM_VG_XENVG"
_HAS = {MEMORY: 1 << 20, VCPU: 10_000, SPINDLES: 10_000, _DISK: 1 << 30}
_PRIMARY = {MEMORY: 1024, VCPU: 1, SPINDLES: 1, _DISK: 1024}
_SECONDARY = {SPINDLES: 1, _DISK: 1152}


def placed(nodes: Sequence[Provider], number: int) -> Allocations:
    """What a mirrored instance uses."""
    primary, secondary = nodes[number % len(nodes)], nodes[(number * 7 + 1) % len(nodes)]
    if primary is secondary:
        secondary = nodes[(number + 1) % len(nodes)]
    return {primary.uuid: _PRIMARY, secondary.uuid: _SECONDARY}


def consumer(name: str, promised: str | None = None) -> Consumer:
    """An instance."""
    return Consumer(consumer_uuid(name), name, "instance", promised=promised)


def furnished(directory: Path, nodes: int, instances: int) -> tuple[Ledger, Sequence[Provider]]:
    """A ledger of a cluster, and its nodes."""
    ledger = Ledger(file_url(str(directory)))
    names = [f"cluster/node{number}.example.org" for number in range(nodes)]
    providers = tuple(Provider(provider_uuid(name), name) for name in names)
    inventory = {name: Inventory(total) for name, total in _HAS.items()}
    ledger.apply(
        LedgerChanges(
            providers=providers,
            inventories={provider.uuid: inventory for provider in providers},
            allocations=tuple(
                LedgerEntry(consumer(f"cluster/instance{number}.example.org"), placed(providers, number))
                for number in range(instances)
            ),
        )
    )
    return ledger, ledger.providers()


def claiming(directory: Path, nodes: int, instances: int) -> float:
    """Seconds of a claim for a new mirrored instance, on generations that were read before."""
    ledger, providers = furnished(directory, nodes, instances)
    generations = {provider.uuid: provider.generation for provider in providers}
    taken = []
    for number in range(500):
        claimant = consumer(f"cluster/new{number}.example.org", promised="x" * 500)
        wanted = placed(providers, number)
        began = time.perf_counter()
        ledger.claim(claimant, wanted, {uuid: generations[uuid] for uuid in wanted})
        taken.append(time.perf_counter() - began)
        for uuid in wanted:
            generations[uuid] += 1
    ledger.close()
    return statistics.median(taken)


def parts(nodes: int) -> tuple[Cluster, Cluster]:
    """A cluster, and the same with one instance changed."""
    shape = Shape(nodes=nodes, instances=10 * nodes)
    first = text.parse(plain(cluster(SEED, shape)), "bench")
    changed = replace(first.instances[7], mem=first.instances[7].mem + 1)
    return first, replace(first, instances=(*first.instances[:7], changed, *first.instances[8:]))


def following(directory: Path, nodes: int, changed: bool) -> float:
    """Seconds until the ledger says what a cluster is; or, once it does, what it is after a change."""
    first, then = parts(nodes)
    ledger, known = Ledger(file_url(str(directory))), LedgerUpdater()
    began = time.perf_counter()
    known.apply(ledger, first, "cluster", CountingRules(4096))
    if changed:
        began = time.perf_counter()
        known.apply(ledger, then, "cluster", CountingRules(4096))
    taken = time.perf_counter() - began
    ledger.close()
    return taken


ROWS = [
    Part("ledger, a claim (80 nodes, 800 instances)", partial(claiming, nodes=80, instances=800), 2e-3),
    Part("ledger, a claim (1,000 nodes, 10,000)", partial(claiming, nodes=1000, instances=10_000), 5e-3),
    Part("ledger, 1,000 nodes, 10,000 instances, cold", partial(following, nodes=1000, changed=False), 2.0),
    Part("ledger, one of 10,000 instances changed", partial(following, nodes=1000, changed=True), 0.05),
]
FULL_ROWS: list[Part] = []
TITLE = "The ledger of the daemon, on SQLite. A thread does this; a decision waits for its claim only."
NOTES: dict[str, str] = {}
lines = measured
