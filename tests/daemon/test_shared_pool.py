"""Two clusters with one pool and one PostgreSQL: each daemon counts the use of both."""

import itertools
import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.client.calls import CallRefusedError, ask
from ganeti_htools.model.cluster import Cluster, Disk, Group
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from tests.daemon.planning import ctl
from tests.support import messages
from tests.support.clusters import Shape, cluster
from tests.support.postgresql import Server
from tests.support.programs import Daemon, executable, running, wait_until
from tests.support.simulators import simulator
from tests.support.worlds import instance, node

GROUP = DesiredUnit(StorageType.LVM_VG, "xenvg")
SAN, TOTAL, RESERVED, EACH = DesiredUnit(StorageType.EXT, "san"), 5000, 500, 1000
DISK = "CUSTOM_DISK_MIB_POOL"


@dataclass
class Both:
    """The daemons of the clusters a and b, each with an instance on the pool."""

    a: Daemon
    b: Daemon

    def used(self) -> int:
        """Return the used space (MiB) of the pool in the ledger."""
        usage: Any = ask(str(self.a.socket), "usage", {"provider": "san.example.org"})
        return int(usage[0]["usages"][DISK]["used"])


def rows() -> Cluster:
    """Return one node, and an instance with a disk on the pool."""
    row = replace(instance("web", DiskTemplate.EXT, "one"), dsk=EACH, disks=(Disk(EACH, unit=SAN),))
    one = node("one", master=True, f_mem=3000, storage=(Unit(GROUP, 9000, 9000),))
    return Cluster((Group("default", "uuid"),), (one,), (row,))


def configuration(ledger: str, seconds: float, total: int = TOTAL) -> str:
    pool = (
        f'type = "ext"\nkey = "san"\ntotal = {total}\nreserved = {RESERVED}\nprovider = "san.example.org"\n'
    )
    return f'config_seconds = {seconds}\nstorage = "always"\nledger = "{ledger}"\n[[pool]]\n{pool}'


@pytest.fixture
def seconds() -> float:
    """The seconds between two polls of each daemon."""
    return 0.05


@contextmanager
def follower(directory: Path, data: Cluster, config: str) -> Iterator[Daemon]:
    """Run a cluster, named as the directory, and its daemon within the block."""
    directory.mkdir()
    with (
        simulator(directory, data, "--name", directory.name, "--job-seconds=0.01"),
        running(directory, config=config) as daemon,
    ):
        yield daemon


@contextmanager
def clusters(
    directory: Path, postgresql: Server, seconds: float, data: Cluster | None = None, total: int = TOTAL
) -> Iterator[Both]:
    """Run both clusters with their daemons within the block."""
    config, data = configuration(postgresql.database(), seconds, total), data or rows()
    with ExitStack() as stack:
        found = Both(*(stack.enter_context(follower(directory / name, data, config)) for name in "ab"))
        wait_until(lambda: all(each.status()["ledger"]["lag_s"] is not None for each in (found.a, found.b)))
        wait_until(lambda: found.used() == 2 * EACH * len(data.instances))
        yield found


@pytest.fixture
def both(tmp_path: Path, postgresql: Server, seconds: float) -> Iterator[Both]:
    with clusters(tmp_path, postgresql, seconds) as found:
        yield found


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory, postgresql: Server) -> Iterator[Both]:
    """Clusters for tests that leave them as they were."""
    with clusters(tmp_path_factory.mktemp("pool"), postgresql, 0.05) as found:
        yield found


def request(name: str, size: int) -> str:
    """Return a request for an instance with a disk of that size on the pool."""
    wanted = messages.allocate(name, "ext", memory=128, disks=[size])
    wanted["disks"][0] |= {"provider": "san"}
    data = cluster(3, Shape(nodes=3, instances=0, templates={"ext": 1}))
    return messages.encode(messages.message(data, wanted))


def decide(daemon: Daemon, name: str, size: int, **more: bool) -> Any:
    """Return the answer to a request."""
    answer: Any = ask(str(daemon.socket), "decide", {"request": request(name, size), **more})
    return json.loads(answer["stdout"])


def free_space(daemon: Daemon) -> int:
    """Return the free space (MiB) of the pool in decisions."""
    storage: Any = ask(str(daemon.socket), "storage", {})
    (pool,) = storage["pools"]
    return int(pool["free"])


def wait_for_space(both: Both, size: int) -> None:
    """Wait until both daemons count so much free space on the pool."""
    wait_until(lambda: free_space(both.a) == free_space(both.b) == size)


def test_instances_of_the_other_cluster_take_space(unchanged: Both) -> None:
    wait_for_space(unchanged, TOTAL - RESERVED - 2 * EACH)
    # The request shows a cluster without instances; the pool has what the other cluster's instance leaves.
    assert decide(unchanged.a, "new", TOTAL - RESERVED - EACH - 1)["success"]
    refused = decide(unchanged.a, "new", TOTAL - RESERVED - EACH)
    assert "most missing: space in ext/san, which lacks 1 MiB" in refused["info"]


def test_claims_in_the_other_cluster_take_space(unchanged: Both) -> None:
    before = TOTAL - RESERVED - 2 * EACH
    assert ctl(unchanged.b, "claim", "backup", f"san.example.org:{DISK}=700").returncode == 0
    wait_for_space(unchanged, before - 700)
    over = ctl(unchanged.a, "claim", "other", f"san.example.org:{DISK}={before}")
    assert (over.returncode, f"{before - 700} of {TOTAL - RESERVED} free" in over.stderr) == (1, True)
    assert ctl(unchanged.b, "release", "backup").returncode == 0
    wait_for_space(unchanged, before)


def test_promises_of_the_other_daemon_take_space(both: Both) -> None:
    before = TOTAL - RESERVED - 2 * EACH
    wait_for_space(both, before)
    answer = decide(both.b, "new", 1100, claim=True)
    assert answer["success"], answer["info"]
    wait_until(lambda: free_space(both.a) == before - 1100)


def test_reserved_space_counts_for_both_clusters(unchanged: Both) -> None:
    before = TOTAL - RESERVED - 2 * EACH
    assert ctl(unchanged.a, "inventory", "set", "san.example.org", DISK, "--reserved=300").returncode == 0
    wait_for_space(unchanged, before - 300)
    shown: Any = ask(str(unchanged.a.socket), "inventory", {"provider": "san.example.org"})
    disk = shown[0]["inventories"][DISK]
    assert (disk["total"], disk["reserved"]) == (TOTAL, RESERVED + 300)
    assert disk["capacity"] == TOTAL - RESERVED - 300
    assert ctl(unchanged.a, "inventory", "set", "san.example.org", DISK, "--reserved=0").returncode == 0
    wait_for_space(unchanged, before)


def test_cluster_without_daemon_still_counts(both: Both) -> None:
    both.b.process.kill()
    both.b.wait()
    wait_until(lambda: free_space(both.a) == TOTAL - RESERVED - 2 * EACH)
    assert both.used() == 2 * EACH


def race(both: Both, files: list[Path]) -> list[Any]:
    """Run the executable on both daemons at once; return the answers."""
    with ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(executable, [both.a.socket, both.b.socket], files))
    assert [(each.returncode, each.stderr) for each in ran] == [(0, "")] * 2
    return [json.loads(each.stdout) for each in ran]


@pytest.mark.parametrize("seconds", [3600.0])  # what the other one has promised is only met in the ledger
def test_one_of_two_concurrent_decisions_gets_the_last_space(both: Both, tmp_path: Path) -> None:
    for daemon in (both.a, both.b):  # each may have read the ledger before the other wrote to it
        ctl(daemon, "refresh")
    left = TOTAL - RESERVED - 2 * EACH
    wait_for_space(both, left)
    files = [tmp_path / f"new{name}" for name in "ab"]
    for path in files:
        path.write_text(request(path.name, left - 1))
    answers = race(both, files)
    (lucky,) = (name for name, each in zip("ab", answers, strict=True) if each["success"])
    (refused,) = (each["info"] for each in answers if not each["success"])
    assert (
        f"; resources are claimed for {lucky}/new{lucky}, without these claims more would find a place"
        in refused
    )
    assert both.a.status()["ledger"]["conflicts"] + both.b.status()["ledger"]["conflicts"] > 0


def decide_all(daemon: Daemon, names: list[str]) -> list[Any]:
    return [decide(daemon, name, 1024, claim=True) for name in names]


def claim_by_hand(both: Both, claims: int) -> None:
    """Claim a little of the pool again and again."""
    for number in range(claims):
        call = {"consumer": "a/tests", "allocations": {"san.example.org": {DISK: 1 + number % 9}}}
        ask(str(both.a.socket), "claim", call)


def test_clusters_that_race_for_a_pool_fill_it_with_the_ledger(tmp_path: Path, postgresql: Server) -> None:
    empty, room = replace(rows(), instances=()), 16
    with (
        clusters(tmp_path, postgresql, 0.3, empty, RESERVED + room * 1024 + 9) as both,
        ThreadPoolExecutor(5) as pool,
    ):
        by_hand = pool.submit(claim_by_hand, both, 20)
        daemons = [(both.a, "a1"), (both.b, "b1"), (both.a, "a2"), (both.b, "b2")]
        racing = [
            pool.submit(decide_all, daemon, [f"{name}-{number}.example.org" for number in range(6)])
            for daemon, name in daemons
        ]
        answers = [answer for each in racing for answer in each.result()]
        by_hand.result()
        assert not [each["info"] for each in answers if "the ledger" in each["info"]]
        assert sum(each["success"] for each in answers) == room
        assert room * 1024 < both.used() <= room * 1024 + 9


def decide_for(daemon: Daemon, seconds: float, seed: int) -> list[Any]:
    """Decide again and again; release some claims, and let others expire. Return the answers."""
    chance, end = random.Random(seed), time.monotonic() + seconds
    answers = list[Any]()
    for number in itertools.count():
        if time.monotonic() > end:
            return answers
        name = f"new{number}.example.org"
        answers.append(decide(daemon, name, chance.randrange(200, 1600), claim=True))
        if answers[-1]["success"] and chance.random() < 0.3:
            with suppress(CallRefusedError):  # it has expired
                ask(str(daemon.socket), "release", {"consumer": name})
    return answers


@pytest.mark.parametrize(
    ("number", "on_server"),
    [
        (1, False),
        (2, True),
        pytest.param(4, True, marks=pytest.mark.long),
        pytest.param(8, True, marks=pytest.mark.long),
    ],
)
def test_pool_is_never_beyond_its_capacity_while_claims_end(
    tmp_path: Path, postgresql: Server, number: int, on_server: bool
) -> None:
    ledger = postgresql.database() if on_server else ""
    config = f"claim_seconds = 0.7\nclaim_wait_seconds = 20.0\n{configuration(ledger, 0.3)}"
    with ExitStack() as stack, ThreadPoolExecutor(number) as pool:
        daemons = [
            stack.enter_context(follower(tmp_path / f"c{each}", replace(rows(), instances=()), config))
            for each in range(number)
        ]
        wait_until(lambda: {each.status()["ledger"]["lag_s"] for each in daemons} == {0})
        racing = [pool.submit(decide_for, daemon, 6.0, seed) for seed, daemon in enumerate(daemons)]
        most = 0
        while not all(each.done() for each in racing):
            usages: Any = ask(str(daemons[0].socket), "usage", {"provider": "san.example.org"})
            most = max(most, usages[0]["usages"][DISK]["used"])
        answers = [answer for each in racing for answer in each.result()]
        notes = [each["info"] for each in answers if "the ledger" in each["info"]]
        assert not [each for each in notes if "no answer" not in each]
        assert most > (TOTAL - RESERVED) / 2
        if notes:
            return  # on a busy machine a file may take longer than a decision waits
        assert most <= TOTAL - RESERVED
        assert [each.status()["ledger"]["over_capacity"] for each in daemons] == [0] * number
