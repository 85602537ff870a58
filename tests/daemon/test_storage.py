"""Storage units from jobs to decisions and tools, all as processes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.backends import iallocator
from ganeti_htools.client.calls import ask
from ganeti_htools.model.cluster import Cluster, Disk, Group
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from tests.daemon.planning import lines, tool
from tests.support import messages
from tests.support.clusters import Shape, cluster
from tests.support.programs import Daemon, running, wait_until
from tests.support.simulators import Simulator, simulator
from tests.support.worlds import instance, migrate, node

OFTEN = 'config_seconds = 0.1\nstorage = "always"\n'
HDD, SSD = DesiredUnit(StorageType.LVM_VG, "hdd"), DesiredUnit(StorageType.LVM_VG, "ssd")


def rows() -> Cluster:
    """Return three mirrored instances on two nodes; a volume group of the third node is full."""

    def storage(free: int) -> tuple[Unit, ...]:
        return Unit(HDD, 9000, 8000), Unit(SSD, 9000, free)

    disks = Disk(300, unit=HDD), Disk(200, unit=SSD)
    web = [instance(f"web{place}", DiskTemplate.DRBD, "one", "two") for place in range(3)]
    nodes = (
        node("one", f_mem=500, storage=storage(8000)),
        node("two", storage=storage(8000)),
        node("three", storage=storage(100)),
        node("boss", master=True, storage=storage(8000)),
    )
    placed = tuple(replace(row, disks=disks, dsk=756) for row in web)
    return Cluster((Group("default", "uuid"),), nodes, placed)


@pytest.fixture
def ganeti(tmp_path: Path) -> Iterator[Simulator]:
    (tmp_path / "daemon").mkdir()
    with simulator(tmp_path / "daemon", rows(), "--job-seconds=0.01") as ganeti:
        yield ganeti


@pytest.fixture
def daemon(tmp_path: Path, ganeti: Simulator) -> Iterator[Daemon]:
    with running(tmp_path / "daemon", config=OFTEN) as daemon:
        wait_until(lambda: storage(daemon)["complete"])
        yield daemon


def test_probe_of_a_pool_limits_and_is_shown(tmp_path: Path, ganeti: Simulator) -> None:
    output = tmp_path / "space"
    pool = f'[[pool]]\ntype = "ext"\nkey = "san"\nprobe = ["cat", "{output}"]\n'

    def shown(daemon: Daemon) -> list[str]:
        printed = lines(daemon, "storage")
        return next((line.split() for line in printed if "ext/san" in line), [])

    with running(tmp_path / "daemon", config=f"config_seconds = 0.1\n{pool}") as daemon:
        wait_until(lambda: daemon.told("pool not probed"))
        assert daemon.told("pool not probed")[0]["error"] == (
            f"cat: exit status 1: cat: {output}: No such file or directory"
        )
        assert shown(daemon) == []
        daemon.stop()
    output.write_text("1g 5g\n")
    with running(tmp_path / "daemon", config=f"config_seconds = 0.1\n{pool}") as daemon:
        wait_until(lambda: shown(daemon) == ["ext/san", "0.0", "1.0", "5.0", "all"])


def storage(daemon: Daemon) -> Any:
    return daemon.status()["cluster"]["storage"]


def test_tools_use_the_daemons_units(daemon: Daemon, ganeti: Simulator, tmp_path: Path) -> None:
    assert tool("hscan", f"-D{daemon.socket}", "-d", tmp_path).returncode == 0
    saved, served = (tmp_path / "LOCAL.data").read_text(), ganeti.cluster()
    assert saved == served
    ours = tool("hbal", f"-D{daemon.socket}", "-p", "-v", "-v", "-v")
    theirs = tool("hbal", f"-L{ganeti.socket}", "--ask-storage", "-p", "-v", "-v", "-v")
    assert "ssd" in ours.stdout + ours.stderr
    assert ours.stdout == theirs.stdout


def test_plan_respects_units_and_free_space_follows(
    daemon: Daemon, ganeti: Simulator, tmp_path: Path
) -> None:
    asked = storage(daemon)["done"]
    done = tool("hbal", f"-D{daemon.socket}", "-X")
    assert done.returncode == 0, done.stderr
    placed = ganeti.rows()
    assert {row.pnode for row in placed.instances} != {"one"}
    assert "three" not in {name for row in placed.instances for name in (row.pnode, row.snode)}
    ganeti.ask("SubmitManyJobs", [[migrate("web0")]])

    def known() -> str:
        assert tool("hscan", f"-D{daemon.socket}", "-d", tmp_path).returncode == 0
        return (tmp_path / "LOCAL.data").read_text()

    wait_until(lambda: {state for _, state in ganeti.tell("jobs")} == {"success"})
    ask(str(daemon.socket), "refresh", {})
    wait_until(lambda: known() == ganeti.cluster())
    assert storage(daemon)["done"] == asked


def asked(template: str, size: int, disk: dict[str, object]) -> str:
    """Return a request for an instance with this disk (MiB), on three empty nodes."""
    request = messages.allocate("new.example.org", template, disks=[size])
    request["disks"][0] |= disk
    shape = Shape(nodes=3, instances=0, templates={template: 1})
    return messages.encode(messages.message(cluster(3, shape), request))


def decided(daemon: Daemon, request: str) -> Any:
    answer: Any = ask(str(daemon.socket), "decide", {"request": request})
    return json.loads(answer["stdout"])


def test_first_disk_on_a_unit_goes_to_a_node_with_it(tmp_path: Path) -> None:
    request = asked("plain", 1024, {"vg": "ssd"})
    rows = iallocator.read(request.encode()).cluster
    both = tuple(Unit(unit, 9000, 8000) for unit in (HDD, SSD))
    nodes = tuple(replace(row, storage=both[: 1 + (row is rows.nodes[-1])]) for row in rows.nodes)
    played = replace(rows, nodes=nodes, default_units=(HDD,))
    with simulator(tmp_path, played, "--job-seconds=0.01"), running(tmp_path, config=OFTEN) as daemon:
        wait_until(lambda: storage(daemon)["complete"])
        assert decided(daemon, request)["result"] == [nodes[-1].name]


def test_configured_pool_limits_decisions_and_default_mode_submits_no_jobs(
    tmp_path: Path, ganeti: Simulator
) -> None:
    config = 'config_seconds = 0.05\n[[pool]]\ntype = "ext"\nkey = "san"\ntotal = 5000\nreserved = 1000\n'

    def decide(daemon: Daemon, size: int) -> Any:
        return decided(daemon, asked("ext", size, {"provider": "san"}))

    with running(tmp_path / "daemon", config=config) as daemon:
        wait_until(lambda: daemon.status()["cluster"]["generations"].get("storage"))
        assert (storage(daemon)["mode"], storage(daemon)["nodes"]) == ("never", 0)
        shown = [line.split() for line in lines(daemon, "storage")]
        assert ["ext/san", "0.0", "3.9", "3.9", "all"] in shown
        assert decide(daemon, 3999)["success"]
        assert decide(daemon, 4000)["info"].endswith("most missing: space in ext/san, which lacks 1 MiB")
    assert ganeti.tell("jobs") == []
