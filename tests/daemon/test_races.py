"""Many clients claim at once: nothing is allocated twice, and nothing is lost when a process is killed."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from ganeti_htools.model.inventory import Inventory
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import LedgerChanges, LedgerSnapshot, Provider, provider_uuid
from tests.daemon.claiming import DISK, MEMORY, POOL
from tests.support.postgresql import Server
from tests.support.programs import PATIENCE, ROOT, Daemon, running, wait_until

pytestmark = pytest.mark.slow

CLIENTS = 5
NODES = 20
Fates = dict[str, dict[str, dict[str, int]] | None]


def add_providers(url: str, clusters: Sequence[str], claims: int) -> None:
    """Give the ledger nodes of clusters that share a pool, with about three quarters of what is claimed."""
    names = [f"{cluster}/node{number}" for cluster in clusters for number in range(NODES // len(clusters))]
    nodes = [Provider(provider_uuid(name), name) for name in names]
    memory = Inventory(claims * 75 // NODES)
    ledger = Ledger(url)
    ledger.apply(
        LedgerChanges(
            providers=(*nodes, Provider(provider_uuid(POOL), POOL, can_host=False)),
            inventories={node.uuid: {MEMORY: memory} for node in nodes}
            | {provider_uuid(POOL): {DISK: Inventory(claims * 10)}},
        )
    )
    ledger.close()


def snapshot(url: str) -> LedgerSnapshot:
    ledger = Ledger(url)
    found = ledger.snapshot()
    ledger.close()
    return found


class Client:
    """A process that claims."""

    def __init__(self, directory: Path, daemon: Daemon, cluster: str, number: int, claims: int) -> None:
        self._out = directory / f"client{number}"
        words = str(daemon.socket), cluster, str(number), str(claims)
        with self._out.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.daemon.claiming", *words], cwd=ROOT, stdout=out
            )

    def fates(self) -> Fates:
        """Return the result of each claim so far: its allocations, or None for a refused one."""
        return dict(json.loads(line) for line in self._out.read_text().splitlines(True) if line[-1] == "\n")


@contextmanager
def claiming(
    directory: Path, daemons: Sequence[Daemon], clusters: Sequence[str], claims: int
) -> Iterator[list[Client]]:
    """Start clients, distributed over the daemons, that make so many claims together."""
    places = list(zip(daemons, clusters, strict=True))
    clients = [
        Client(directory, *places[number % len(places)], number, claims // CLIENTS)
        for number in range(CLIENTS)
    ]
    try:
        yield clients
    finally:
        for each in clients:
            each.process.kill()
            each.process.wait()


def check(url: str, clients: Sequence[Client], killed: Sequence[Client] = ()) -> int:
    """Check that the ledger has exactly the claims that clients know of; return their number."""
    fates = {name: claim for client in clients for name, claim in client.fates().items()}
    promised = {name: claim for name, claim in fates.items() if claim is not None}
    found = snapshot(url)
    names = {uuid: provider.name for uuid, provider in found.providers.items()}
    held = {
        found.consumers[consumer].name: {names[uuid]: dict(amounts) for uuid, amounts in each.items()}
        for consumer, each in found.allocations.items()
    }
    assert {name: held.get(name) for name in promised} == promised
    # A client that was killed may have one claim whose answer it did not get.
    assert len(held.keys() - promised.keys()) <= len(killed)
    assert not {name for name, claim in fates.items() if claim is None} & held.keys()
    used = dict.fromkeys(((uuid, name) for uuid, has in found.inventories.items() for name in has), 0)
    for each in found.allocations.values():
        for uuid, amounts in each.items():
            for name, amount in amounts.items():
                used[uuid, name] += amount
    assert all(amount <= found.inventories[uuid][name].capacity for (uuid, name), amount in used.items())
    return len(held)


def configuration(url: str) -> str:
    """Return the configuration of a daemon with that ledger. The file is the default."""
    return f'ledger = "{url}"' if url.startswith("postgresql") else ""


def wait_for(clients: Sequence[Client]) -> None:
    assert [client.process.wait(3 * PATIENCE) for client in clients] == [0] * len(clients)


def has(clients: Sequence[Client], least: int) -> bool:
    """Whether the clients know the fate of so many claims."""
    return sum(len(client.fates()) for client in clients) >= least


@pytest.mark.parametrize("claims", [120, pytest.param(1000, marks=pytest.mark.long)])
def test_nothing_is_allocated_twice_when_many_clients_claim(
    tmp_path: Path, ledger_url: str, claims: int
) -> None:
    add_providers(ledger_url, "c", claims)
    with (
        running(tmp_path, config=configuration(ledger_url)) as daemon,
        claiming(tmp_path, [daemon], "c", claims) as clients,
    ):
        wait_for(clients)
        status = daemon.status()["ledger"]
    assert has(clients, claims)
    assert claims / 2 < check(ledger_url, clients) == status["claims"] < claims
    assert status["conflicts"]  # they did race


def test_no_claim_is_lost_when_clients_and_daemon_are_killed(tmp_path: Path, ledger_url: str) -> None:
    add_providers(ledger_url, "c", 80)
    config = configuration(ledger_url)
    with running(tmp_path, config=config) as daemon, claiming(tmp_path, [daemon], "c", 80) as clients:
        killed, others = clients[:2], clients[2:]
        for client in killed:
            wait_until(partial(has, [client], 3))
            client.process.kill()
            client.process.wait()
        wait_until(partial(has, others, 15))
        daemon.kill()
        with running(tmp_path, config=config):
            wait_for(others)
    assert has(others, 48)
    check(ledger_url, clients, killed)


def test_two_clusters_never_overcommit_their_pool(tmp_path: Path, postgresql: Server) -> None:
    url = postgresql.database()
    add_providers(url, "ab", 80)
    config = configuration(url)
    with (
        running(tmp_path / "a", config=config) as first,
        running(tmp_path / "b", config=config) as second,
        claiming(tmp_path, [first, second], "ab", 80) as clients,
    ):
        wait_until(partial(has, clients, 20))
        second.kill()
        with running(tmp_path / "b", config=config):
            wait_for(clients)
    assert has(clients, 80)
    check(url, clients)
