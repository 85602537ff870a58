"""Many clients claim at once: nothing is promised twice, nothing is lost, whoever is killed."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from ganeti_htools.model.inventory import Inventory
from htoolsd.ledger.ledger import Ledger
from htoolsd.ledger.records import LedgerChanges, LedgerSnapshot, Provider, provider_uuid
from tests.daemon.claiming import DISK, MEMORY, POOL
from tests.support.postgresql import Server
from tests.support.programs import PATIENCE, ROOT, Daemon, running, wait_until

pytestmark = pytest.mark.slow

CLIENTS = 8
NODES = 20
Told = dict[str, dict[str, dict[str, int]] | None]


def furnish(url: str, clusters: Sequence[str], claims: int) -> None:
    """Nodes of clusters, that share a pool: room for about three quarters of what is going to be claimed."""
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


def contents(url: str) -> LedgerSnapshot:
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

    def told(self) -> Told:
        """What became of each claim so far."""
        return dict(json.loads(line) for line in self._out.read_text().splitlines(True) if line[-1] == "\n")


@contextmanager
def claiming(
    directory: Path, daemons: Sequence[Daemon], clusters: Sequence[str], claims: int
) -> Iterator[list[Client]]:
    """Clients of the daemons in turn, who claim so often together."""
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
    """Hold that what clients were told is what the ledger says; how many claims there are."""
    told = {name: claim for client in clients for name, claim in client.told().items()}
    promised = {name: claim for name, claim in told.items() if claim is not None}
    found = contents(url)
    names = {uuid: provider.name for uuid, provider in found.providers.items()}
    held = {
        found.consumers[consumer].name: {names[uuid]: dict(amounts) for uuid, amounts in each.items()}
        for consumer, each in found.allocations.items()
    }
    assert {name: held.get(name) for name in promised} == promised
    # Who was killed may have been promised one claim more than was told.
    assert len(held.keys() - promised.keys()) <= len(killed)
    assert not {name for name, claim in told.items() if claim is None} & held.keys()
    used = dict.fromkeys(((uuid, name) for uuid, has in found.inventories.items() for name in has), 0)
    for each in found.allocations.values():
        for uuid, amounts in each.items():
            for name, amount in amounts.items():
                used[uuid, name] += amount
    assert all(amount <= found.inventories[uuid][name].capacity for (uuid, name), amount in used.items())
    return len(held)


def configuration(url: str) -> str:
    """Of a daemon with that ledger; without a word it is the file."""
    return f'ledger = "{url}"' if url.startswith("postgresql") else ""


def wait_for(clients: Sequence[Client]) -> None:
    assert [client.process.wait(3 * PATIENCE) for client in clients] == [0] * len(clients)


def has(clients: Sequence[Client], least: int) -> bool:
    """Whether they know the fate of so many claims."""
    return sum(len(client.told()) for client in clients) >= least


def test_a_thousand_claims_at_once(tmp_path: Path, ledger_url: str) -> None:
    furnish(ledger_url, "c", 1000)
    with (
        running(tmp_path, config=configuration(ledger_url)) as daemon,
        claiming(tmp_path, [daemon], "c", 1000) as clients,
    ):
        wait_for(clients)
        status = daemon.status()["ledger"]
    assert has(clients, 1000)
    assert 500 < check(ledger_url, clients) == status["claims"] < 1000
    assert status["conflicts"]  # they did race


def test_clients_and_the_daemon_are_killed_in_the_middle(tmp_path: Path, ledger_url: str) -> None:
    furnish(ledger_url, "c", 400)
    config = configuration(ledger_url)
    with running(tmp_path, config=config) as daemon, claiming(tmp_path, [daemon], "c", 400) as clients:
        killed, others = clients[:2], clients[2:]
        for client in killed:
            wait_until(partial(has, [client], 10))
            client.process.kill()
            client.process.wait()
        wait_until(partial(has, others, 100))
        daemon.signal(signal.SIGKILL)
        daemon.wait()
        with running(tmp_path, config=config):
            wait_for(others)
    assert has(others, 300)
    check(ledger_url, clients, killed)


def test_two_clusters_share_a_pool(tmp_path: Path, postgresql: Server) -> None:
    url = postgresql.database()
    furnish(url, "ab", 400)
    config = configuration(url)
    with (
        running(tmp_path / "a", config=config) as first,
        running(tmp_path / "b", config=config) as second,
        claiming(tmp_path, [first, second], "ab", 400) as clients,
    ):
        wait_until(partial(has, clients, 100))
        second.signal(signal.SIGKILL)
        second.wait()
        with running(tmp_path / "b", config=config):
            wait_for(clients)
    assert has(clients, 400)
    check(url, clients)
