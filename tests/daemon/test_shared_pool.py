"""Two clusters with one pool, each with its daemon, and one PostgreSQL: what one has the other lacks."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.client.asking import ask
from ganeti_htools.model.cluster import Cluster, Disk, Group
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from tests.daemon.planning import ctl
from tests.support import messages
from tests.support.clusters import Shape, cluster
from tests.support.postgresql import Server
from tests.support.programs import Daemon, running, wait_until
from tests.support.simulators import simulator
from tests.support.worlds import instance, node

GROUP = DesiredUnit(StorageType.LVM_VG, "xenvg")
SAN, TOTAL, RESERVED, EACH = DesiredUnit(StorageType.EXT, "san"), 5000, 500, 1000
DISK = "CUSTOM_DISK_MIB_POOL"


@dataclass
class Both:
    """The daemons of the clusters a and b, each of which has an instance on the pool."""

    a: Daemon
    b: Daemon

    def used(self) -> int:
        """What the ledger says that is used of the pool."""
        (told,) = json.loads(ctl(self.a, "usage", "san.example.org", "--json").stdout)
        return int(told["usages"][DISK]["used"])


def rows() -> Cluster:
    """One node, and an instance that has a disk on the pool."""
    row = replace(instance("web", DiskTemplate.EXT, "one"), dsk=EACH, disks=(Disk(EACH, unit=SAN),))
    one = node("one", master=True, f_mem=3000, storage=(Unit(GROUP, 9000, 9000),))
    return Cluster((Group("default", "uuid"),), (one,), (row,))


def configuration(ledger: str) -> str:
    pool = (
        f'type = "ext"\nkey = "san"\ntotal = {TOTAL}\nreserved = {RESERVED}\nprovider = "san.example.org"\n'
    )
    return f'config_seconds = 0.05\nstorage = "always"\nledger = "{ledger}"\n[[pool]]\n{pool}'


@pytest.fixture
def both(tmp_path: Path, postgresql: Server) -> Iterator[Both]:
    config = configuration(postgresql.database())
    with ExitStack() as stack:
        daemons = []
        for name in "ab":
            (tmp_path / name).mkdir()
            stack.enter_context(simulator(tmp_path / name, rows(), "--name", name, "--job-seconds=0.01"))
            daemons.append(stack.enter_context(running(tmp_path / name, config=config)))
        found = Both(*daemons)
        wait_until(lambda: found.used() == 2 * EACH)
        yield found


def decide(daemon: Daemon, name: str, size: int, **more: bool) -> Any:
    """The answer to a request for an instance with a disk of that size on the pool."""
    request = messages.allocate(name, "ext", disks=[size])
    request["disks"][0] |= {"provider": "san"}
    data = cluster(3, Shape(nodes=3, instances=0, templates={"ext": 1}))
    answer: Any = ask(
        str(daemon.socket), "decide", {"request": messages.encode(messages.message(data, request)), **more}
    )
    return json.loads(answer["stdout"])


def room(daemon: Daemon) -> int:
    """What decisions think is free of the pool."""
    told = json.loads(ctl(daemon, "storage", "--json").stdout)
    (pool,) = told["pools"]
    return int(pool["free"])


def wait_for_room(both: Both, size: int) -> None:
    """Until both know that so much is free of the pool."""
    wait_until(lambda: room(both.a) == room(both.b) == size)


def test_instances_of_the_other_cluster_take_room(both: Both) -> None:
    wait_for_room(both, TOTAL - RESERVED - 2 * EACH)
    # The request shows a cluster without instances; the pool has what the other cluster's instance leaves.
    assert decide(both.a, "new", TOTAL - RESERVED - EACH - 1)["success"]
    refused = decide(both.a, "new", TOTAL - RESERVED - EACH)
    assert "most missing: space in ext/san, which lacks 1 MiB" in refused["info"]


def test_claims_in_the_other_cluster_take_room(both: Both) -> None:
    before = TOTAL - RESERVED - 2 * EACH
    assert ctl(both.b, "claim", "backup", f"san.example.org:{DISK}=700").returncode == 0
    wait_for_room(both, before - 700)
    over = ctl(both.a, "claim", "other", f"san.example.org:{DISK}={before}")
    assert (over.returncode, f"{before - 700} of {TOTAL - RESERVED} left" in over.stderr) == (1, True)
    assert ctl(both.b, "release", "backup").returncode == 0
    wait_for_room(both, before)


def test_what_the_other_daemon_has_promised_takes_room(both: Both) -> None:
    before = TOTAL - RESERVED - 2 * EACH
    wait_for_room(both, before)
    answer = decide(both.b, "new", 1100, claim=True)
    assert answer["success"], answer["info"]
    wait_until(lambda: room(both.a) == before - 1100)


def test_what_administrators_reserve_counts_for_both(both: Both) -> None:
    before = TOTAL - RESERVED - 2 * EACH
    assert ctl(both.a, "inventory", "set", "san.example.org", DISK, "--reserved=300").returncode == 0
    wait_for_room(both, before - 300)


def test_a_cluster_whose_daemon_is_gone_goes_on_counting(both: Both) -> None:
    both.b.process.kill()
    both.b.wait()
    wait_until(lambda: room(both.a) == TOTAL - RESERVED - 2 * EACH)
    assert both.used() == 2 * EACH
