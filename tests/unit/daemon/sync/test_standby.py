"""The figures that nodes last reported are kept while they are silent, also over a restart."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
import trio
from trio.testing import MockClock

from ganeti_htools.backends import standby
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.types import DiskTemplate
from htoolsd.sync.standby import StandbyFile, StandbyNodes, revise_standby, with_standby
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.seeds import few


def described(**changes: object) -> Cluster:
    """Return three nodes with an instance each, with changes to the last node."""
    rows = [instance(f"i{row}", DiskTemplate.PLAIN, f"n{row}", mem=1000) for row in range(3)]
    made = by_hand.cluster({"n0": 10_000, "n1": 10_000, "n2": 20_000}, rows)
    *others, last = made.nodes
    return replace(made, nodes=(*others, replace(last, **changes)))  # type: ignore[arg-type]


def silent(cluster: Cluster, name: str) -> Cluster:
    """Return the cluster as Ganeti reports it once the node is off."""
    nodes = [
        Node(node.name, node.group, offline=True) if node.name == name else node for node in cluster.nodes
    ]
    return replace(cluster, nodes=tuple(nodes), instances=cluster.instances[:2])


async def write(path: Path, known: StandbyNodes, cluster: Cluster) -> None:
    file = StandbyFile(str(path))
    file.put(known, cluster)
    await file.write()


def test_node_is_recorded_without_its_instances() -> None:
    before = described()
    known = revise_standby({}, None, before)
    assert {*known} == {"n0", "n1", "n2"}
    assert known["n2"].f_mem == min(20_000, before.nodes[2].f_mem + 1000)
    assert with_standby(before, known) is before
    off = with_standby(silent(before, "n2"), known)
    assert off.standby == (known["n2"],)
    assert with_standby(off, known) is off


def test_changed_instances_record_nothing() -> None:
    known = revise_standby({}, None, described())
    assert revise_standby(known, described(), described(f_mem=5000)) is known
    larger = revise_standby(known, described(), described(t_mem=30_000.0, f_mem=25_000))
    assert larger["n2"].t_mem == 30_000
    assert larger["n1"] is known["n1"]


def test_last_report_counts() -> None:
    known = revise_standby({}, None, described())
    late = described(f_mem=7000)
    assert revise_standby(known, late, silent(late, "n2"))["n2"].f_mem == 8000
    assert revise_standby(known, None, silent(late, "n2")) == known


def test_removed_node_is_forgotten() -> None:
    cluster = described()
    known = revise_standby({}, None, cluster)
    left = replace(cluster, nodes=cluster.nodes[:2], instances=cluster.instances[:2])
    assert {*revise_standby(known, cluster, left)} == {"n0", "n1"}


async def test_figures_survive_the_daemon(tmp_path: Path) -> None:
    cluster, file = described(excl_stor=True, t_spindles=7, f_spindles=5), tmp_path / "standby.data"
    known = revise_standby({}, None, cluster)
    assert await StandbyFile(str(file)).read() == {}
    await write(file, known, cluster)
    again = await StandbyFile(str(file)).read()
    assert again == known
    assert revise_standby(again, None, cluster) is again
    assert [path.name for path in tmp_path.iterdir()] == ["standby.data"]


@pytest.mark.parametrize("content", [b"", b"\xff", b"g|u|preferred||\n\nn0|x\n"])
async def test_damaged_file_counts_as_none(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "standby.data"
    file.write_bytes(content)
    assert await StandbyFile(str(file)).read() == {}
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [content]
    cluster = described()
    known = revise_standby({}, None, cluster)
    await write(file, known, cluster)
    assert await StandbyFile(str(file)).read() == known


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        (b"n1|10000|", b"n1|1x000|", {"n0", "n2"}),
        (b"n1|10000|", b"n1|1\xff000|", {"n0", "n2"}),
        (b"group1|uuid-1|", b"group9|uuid-9|wrong\ngroup1|uuid-1|", {"n0", "n1", "n2"}),
        (b"|4.0|32.0", b"|4.0|x", {"n0", "n1", "n2"}),
    ],
)
async def test_nodes_with_readable_rows_count(
    tmp_path: Path, old: bytes, new: bytes, names: set[str]
) -> None:
    cluster, file = described(), tmp_path / "standby.data"
    known = revise_standby({}, None, cluster)
    await write(file, known, cluster)
    file.write_bytes(file.read_bytes().replace(old, new))
    assert await StandbyFile(str(file)).read() == {name: known[name] for name in names}


@pytest.mark.parametrize("seed", few(range(50), 5000))
async def test_damaged_bytes_end_nothing(tmp_path: Path, seed: range) -> None:
    cluster, file = described(), tmp_path / "standby.data"
    await write(file, revise_standby({}, None, cluster), cluster)
    whole = file.read_bytes()
    for number in seed:
        chance = random.Random(number)
        spoilt = bytearray(whole)
        for _ in range(chance.choice((1, 2, 20))):
            spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
        file.write_bytes(spoilt[: chance.choice((len(spoilt), chance.randrange(len(spoilt))))])
        found = await StandbyFile(str(file)).read()
        with_standby(cluster, revise_standby(found, None, silent(cluster, "n2")))


async def test_failed_write_is_logged_once_and_repeated(tmp_path: Path, autojump_clock: MockClock) -> None:
    cluster, directory = described(), tmp_path / "none"
    known = revise_standby({}, None, cluster)
    file = StandbyFile(str(directory / "standby.data"))
    with structlog.testing.capture_logs() as log:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(file.run)
            file.put({}, cluster)
            await trio.sleep(25)
            file.put(known, cluster)
            directory.mkdir()
            await trio.sleep(25)
            assert await file.read() == known
            nursery.cancel_scope.cancel()
    assert [line["event"] for line in log] == ["figures of standby nodes not written"]


async def test_last_figures_are_written_at_the_end(tmp_path: Path) -> None:
    cluster, file = described(), StandbyFile(str(tmp_path / "standby.data"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.run)
        await trio.testing.wait_all_tasks_blocked()
        file.put(revise_standby({}, None, cluster), cluster)
        nursery.cancel_scope.cancel()
    assert len(await file.read()) == 3


async def test_without_a_path_nothing_is_written(tmp_path: Path) -> None:
    file, cluster = StandbyFile(""), described()
    file.put(revise_standby({}, None, cluster), cluster)
    await file.write()


def test_written_text_is_read_back() -> None:
    cluster = described()
    nodes = tuple(revise_standby({}, None, cluster).values())
    assert standby.parse(standby.dump(cluster, nodes), "x") == nodes
