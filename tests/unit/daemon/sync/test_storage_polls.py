"""Storage is polled as the configuration demands, and delays nothing."""

import threading
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.simulator.world import World, lose_node
from htoolsd import threads
from htoolsd.config.settings import Settings
from htoolsd.events import EventStream
from htoolsd.sync import pool_probes, storage_polls
from htoolsd.sync.storage_polls import StoragePolls
from htoolsd.sync.sync import Sync
from tests.support.configuration import config_data
from tests.support.memory_ganeti import MemoryGaneti, ganeti
from tests.support.settings import change, settings
from tests.support.worlds import delay, replace_disks, role
from tests.unit.simulator.test_storage_units import HDD, SSD, world
from tests.unit.simulator.test_storage_units import units as units_of

LVM_VG = StorageType.LVM_VG
ALWAYS, NEEDED = {"storage": "always"}, {"storage": "when-needed"}
NEVER: dict[str, Any] = {"storage": "never", "pool": ()}
UNITS, DISKS = "OP_NODE_QUERY_STORAGE", "OP_INSTANCE_QUERY_DATA"


def polling(given: dict[str, Any]) -> Settings:
    """Return settings that a test may change."""
    return settings(config_seconds=20.0, **given)


@asynccontextmanager
async def following(
    luxid: MemoryGaneti, given: dict[str, Any] | Settings, file: Path | str = ""
) -> AsyncIterator[Sync]:
    """Run a synchronisation, with storage, within the block."""
    async with following_storage(luxid, given, file) as (sync, _):
        yield sync


@asynccontextmanager
async def following_storage(
    luxid: MemoryGaneti, given: dict[str, Any] | Settings, file: Path | str = ""
) -> AsyncIterator[tuple[Sync, StoragePolls]]:
    """Run a synchronisation within the block, and the polls for storage."""
    known = given if isinstance(given, Settings) else polling(given)
    sync = Sync("/luxi", luxid.node, known, EventStream(), connect=luxid.connect)
    storage = StoragePolls(str(file), known, sync)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync.run)
        nursery.start_soon(storage.run)
        yield sync, storage
        nursery.cancel_scope.cancel()


def asked(luxid: MemoryGaneti) -> list[str]:
    """Return the opcodes that ask for storage, oldest first."""
    names = [job.ops[0].opcode["OP_ID"] for job in luxid.jobs.unarchived()]
    return [name for name in names if name in (UNITS, DISKS)]


def units(sync: Sync) -> dict[str, set[Unit] | None]:
    assert sync.model.cluster is not None
    return {row.name: None if row.storage is None else set(row.storage) for row in sync.model.cluster.nodes}


def truth(luxid: MemoryGaneti) -> dict[str, set[Unit] | None]:
    return {row.name: set(row.storage or ()) for row in luxid.jobs.world.cluster.nodes}


def write(file: Path, now: World) -> None:
    file.write_bytes(config_data(now))


def single() -> World:
    """Return a world with all disks on the default volume group."""
    start = world()
    rows = [
        replace(row, disks=tuple(replace(disk, unit=HDD) for disk in row.disks))
        for row in start.cluster.instances
    ]
    rows = [row for row in rows if row.template is DiskTemplate.DRBD]
    return replace(start, cluster=replace(start.cluster, instances=tuple(rows)))


async def test_mode_never_submits_nothing(autojump_clock: MockClock, tmp_path: Path) -> None:
    file = tmp_path / "config.data"
    write(file, world())
    async with ganeti(world()) as luxid, following(luxid, NEVER, file) as sync:
        await trio.sleep(2000)
        assert luxid.jobs.unarchived() == []
        assert units(sync) == {"one": None, "two": None, "three": None}
        assert sync.model.cluster is sync.model.without_storage
        assert "storage" not in sync.model.generations
        assert "storage" not in sync.ages()


async def test_nodes_and_disks_get_their_units(autojump_clock: MockClock) -> None:
    async with ganeti(world()) as luxid, following_storage(luxid, ALWAYS) as (sync, storage):
        await trio.sleep(60)
        assert units(sync) == truth(luxid)
        assert sync.model.cluster is not None
        rows = {row.name: row.disks for row in luxid.jobs.world.cluster.instances}
        assert {row.name: row.disks for row in sync.model.cluster.instances} == rows
        assert asked(luxid) == [DISKS, UNITS]
        assert 0 < sync.ages()["storage"] < 60
        assert storage.status()["nodes"] == 3
        generation = sync.model.generations["storage"]
        await trio.sleep(500)
        assert asked(luxid) == [DISKS, UNITS]
        await trio.sleep(100)
        assert asked(luxid) == [DISKS, UNITS, UNITS]
        assert sync.model.generations["storage"] == generation


async def test_nodes_are_asked_once_they_are_known(autojump_clock: MockClock) -> None:
    """The poll does not wait for the next regular round."""
    async with ganeti(world()) as luxid, following(luxid, ALWAYS) as sync:
        await trio.sleep(2 * storage_polls.SHORT_PAUSE)
        assert sync.model.cluster is not None
        assert asked(luxid)


async def test_disks_are_read_from_the_configuration_file(autojump_clock: MockClock, tmp_path: Path) -> None:
    file = tmp_path / "config.data"
    write(file, world())
    async with ganeti(world()) as luxid, following(luxid, ALWAYS, file) as sync:
        await trio.sleep(60)
        assert units(sync) == truth(luxid)
        assert asked(luxid) == [UNITS]


async def test_damaged_configuration_changes_nothing(autojump_clock: MockClock, tmp_path: Path) -> None:
    file = tmp_path / "config.data"
    write(file, world())
    async with ganeti(world()) as luxid, following_storage(luxid, ALWAYS, file) as (sync, storage):
        await trio.sleep(60)
        before = sync.model
        for damage in (b"", b"{}", b"\xff" * 9, config_data(world())[:-30]):
            file.write_bytes(damage)
            await trio.sleep(10)
            assert str(storage.status()["error"]).startswith("Ganeti's configuration: ")
        assert sync.model.storage == before.storage
        write(file, world())
        await trio.sleep(700)
        assert storage.status()["error"] is None
        assert asked(luxid) == [UNITS, UNITS]


async def test_error_ends_with_the_next_good_round_where_nodes_are_not_asked(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    file = tmp_path / "config.data"
    file.write_bytes(config_data(world())[:-30])
    pool = Pool(DesiredUnit(StorageType.RADOS, "rbd"), 1000)
    async with (
        ganeti(world()) as luxid,
        following_storage(luxid, {"pool": (pool,)}, file) as (_, storage),
    ):
        for _ in range(3):
            await trio.sleep(30)
            assert str(storage.status()["error"]).startswith("Ganeti's configuration: ")
        write(file, world())
        await trio.sleep(30)
        assert storage.status()["error"] is None


async def test_few_nodes_are_asked_at_a_time(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_polls, "NODES", 2)
    async with ganeti(world(), job_seconds=10) as luxid, following_storage(luxid, ALWAYS) as (sync, storage):
        await trio.sleep(40 + 10 + 8)
        assert storage.status()["nodes"] == 2
        assert set(units(sync).values()) == {None}
        await trio.sleep(60)
        assert units(sync) == truth(luxid)
        nodes = [job.ops[0].opcode.get("nodes") for job in luxid.jobs.unarchived()]
        assert nodes == [None, ["one", "two"], ["three"]]


async def test_polls_begin_when_a_disk_names_another_unit(autojump_clock: MockClock, tmp_path: Path) -> None:
    file, start = tmp_path / "config.data", single()
    write(file, start)
    async with ganeti(start) as luxid, following_storage(luxid, NEEDED, file) as (sync, storage):
        await trio.sleep(1000)
        assert (asked(luxid), storage.status()["needed"]) == ([], False)
        [row] = start.cluster.instances
        moved = luxid.jobs.world.with_instance(replace(row, disks=(row.disks[0], Disk(300, unit=SSD))))
        write(file, moved)
        luxid.jobs.change(moved)
        await trio.sleep(60)
        assert (asked(luxid), storage.status()["needed"]) == ([UNITS], True)
        assert {Unit(HDD, 9000, 8000), Unit(SSD, 9000, 8000)} <= (units(sync)["one"] or set())
        write(file, start)
        luxid.jobs.change(start)
        await trio.sleep(1000)
        assert (asked(luxid), storage.status()["nodes"]) == ([UNITS], 0)
        assert set(units(sync).values()) == {None}


async def test_polls_begin_when_a_request_names_another_unit(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    write(tmp_path / "config.data", single())
    async with (
        ganeti(single()) as luxid,
        following_storage(luxid, NEEDED, tmp_path / "config.data") as (_, storage),
    ):
        await trio.sleep(1000)
        storage.request_units()
        await trio.sleep(60)
        assert asked(luxid) == [UNITS]


async def test_nodes_are_asked_again_when_another_type_is_enabled(autojump_clock: MockClock) -> None:
    start = single()

    def enabling(*templates: DiskTemplate) -> World:
        policy = replace(start.cluster.ipolicy, disk_templates=templates)
        return replace(start, cluster=replace(start.cluster, ipolicy=policy))

    async with ganeti(enabling(DiskTemplate.DRBD)) as luxid, following(luxid, ALWAYS) as sync:
        await trio.sleep(60)
        assert units(sync)["one"] == {Unit(HDD, 9000, 8000)}
        luxid.jobs.change(enabling(DiskTemplate.DRBD, DiskTemplate.FILE))
        await trio.sleep(60)
        assert {unit.desired.type for unit in units(sync)["one"] or ()} == {LVM_VG, StorageType.FILE}


async def test_free_space_follows_the_disks(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with ganeti(world()) as luxid, following(luxid, ALWAYS) as sync:
        await trio.sleep(60)
        before = truth(luxid)
        luxid.jobs.submit([[replace_disks("mirrored", "three")]])
        await trio.sleep(60)
        assert before != truth(luxid) == units(sync)
        assert asked(luxid) == [DISKS, UNITS]


async def test_locked_nodes_are_not_asked(autojump_clock: MockClock) -> None:
    async with ganeti(world(), job_seconds=300) as luxid:
        luxid.jobs.submit([[role("three", drained=True)]])
        await trio.sleep(1)
        luxid.jobs.behaviour.seconds = 1
        async with following_storage(luxid, ALWAYS) as (sync, storage):
            await trio.sleep(100)
            assert storage.status()["nodes"] == 2
            assert units(sync)["one"] is None
            await trio.sleep(300)
            assert units(sync) == truth(luxid)


async def test_other_nodes_do_not_wait_for_a_locked_one(
    autojump_clock: MockClock,
) -> None:
    async with ganeti(world(), job_seconds=5000) as luxid:
        luxid.jobs.submit([[role("three", drained=True)]])
        await trio.sleep(1)
        luxid.jobs.behaviour.seconds = 1
        async with following(luxid, ALWAYS) as sync:
            await trio.sleep(1000)
            found = units(sync)
            assert (found["three"], found["one"]) == (None, truth(luxid)["one"])


async def test_waiting_job_is_cancelled(autojump_clock: MockClock) -> None:
    async with ganeti(world()) as luxid, following_storage(luxid, ALWAYS) as (sync, storage):
        await trio.sleep(60)
        before = sync.model.storage
        for _ in range(20):  # as many as may run
            luxid.jobs.submit([[delay(900)]])
        await trio.sleep(650)
        assert "has not ended within 60 s" in storage.status()["error"]
        states = [job.state.value for job in luxid.jobs.unarchived() if job.ops[0].opcode["OP_ID"] == UNITS]
        assert states[:2] == ["success", "canceled"]
        assert len(states) <= 3  # it is not tried again at once
        assert sync.model.storage == before
        await trio.sleep(500)
        assert storage.status()["error"] is None
        assert sync.ages()["storage"] < 400


async def test_silent_node_keeps_its_single_figure(autojump_clock: MockClock) -> None:
    async with ganeti(world()) as luxid, following(luxid, ALWAYS) as sync:
        await trio.sleep(60)
        luxid.jobs.change(lose_node(luxid.jobs.world, "two"))
        await trio.sleep(1000)
        assert (units(sync)["two"], units(sync)["one"]) == (None, truth(luxid)["one"])


async def test_mode_never_forgets_the_reports(autojump_clock: MockClock) -> None:
    known = polling(ALWAYS)
    async with ganeti(world()) as luxid, following(luxid, known) as sync:
        await trio.sleep(60)
        change(known, **NEVER)
        await trio.sleep(2000)
        assert asked(luxid) == [DISKS, UNITS]
        assert units(sync) == {"one": None, "two": None, "three": None}
        change(known, **ALWAYS)
        await trio.sleep(60)
        assert units(sync) == truth(luxid)


async def test_pools_need_no_jobs(autojump_clock: MockClock) -> None:
    pools = (Pool(DesiredUnit(StorageType.RADOS, "fast"), 500),)
    known = polling({"pool": pools})
    async with ganeti(world()) as luxid, following(luxid, known) as sync:
        await trio.sleep(60)
        assert sync.model.cluster is not None
        assert (sync.model.cluster.pools, sync.model.generations["storage"]) == (pools, 1)
        change(known, **NEVER)
        await trio.sleep(60)
        assert sync.model.cluster.pools == ()
        assert asked(luxid) == []


async def test_event_loop_does_not_add_up_the_disks_of_a_large_cluster(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes 50 ms for 10,000 instances."""
    used = defaultdict[str, set[int]](set)  # the threads, by function

    def follow(module: Any, name: str) -> None:
        function = getattr(module, name)

        def work(cluster: object) -> object:
            used[f"{module.__name__}.{name}"].add(threading.get_ident())
            return function(cluster)

        monkeypatch.setattr(module, name, work)

    monkeypatch.setattr(threads, "_THREAD_BYTES", 0)
    for module, name in (
        (storage_polls, "used_storage"),
        (storage_polls, "used_pools"),
        (pool_probes, "used_pools"),
    ):
        follow(module, name)
    shared = Unit(DesiredUnit(StorageType.SHARED_FILE, "/srv/ganeti/shared-file-storage"), 5000, 4000)
    start = world(**{name: units_of(8000, 8000, shared) for name in ("one", "two", "three")})
    probed = Pool(DesiredUnit(StorageType.RADOS, "rbd"), 0, probe=("probe",))

    async def printed(*_run: object) -> bytes:
        return b"100 500"  # a real program would have to end before the clock jumps

    monkeypatch.setattr(pool_probes, "output_of", printed)
    async with ganeti(start) as luxid, following(luxid, ALWAYS | {"pool": (probed,)}):
        with trio.fail_after(600):
            while len(used) < 3:
                await trio.sleep(5)
    assert threading.get_ident() not in set().union(*used.values())


async def test_unanswered_disks_are_not_asked_for_endlessly(autojump_clock: MockClock) -> None:
    async with ganeti(world()) as luxid:
        luxid.garble = (b'"size":300', b'"size":301')  # of other disks, as it seems
        async with following(luxid, ALWAYS) as sync:
            await trio.sleep(500)
            assert asked(luxid).count(DISKS) == 1
            await trio.sleep(600)
            assert asked(luxid).count(DISKS) == 2
            luxid.garble = (b"", b"")
            await trio.sleep(600)
            assert units(sync) == truth(luxid)
            assert asked(luxid).count(DISKS) == 3


async def test_disks_are_known_with_configured_pools(autojump_clock: MockClock, tmp_path: Path) -> None:
    """The use of the pools depends on the disks."""
    file = tmp_path / "config.data"
    write(file, world())
    fast = {"pool": (Pool(DesiredUnit(StorageType.RADOS, "fast"), 500),)}
    known = polling(fast)
    async with ganeti(world()) as luxid, following(luxid, known, file) as sync:
        await trio.sleep(60)
        assert sync.model.cluster is not None
        rows = {row.name: row.disks for row in luxid.jobs.world.cluster.instances}
        assert {row.name: row.disks for row in sync.model.cluster.instances} == rows
        assert set(units(sync).values()) == {None}
        change(known, **NEVER)
        await trio.sleep(60)
        assert sync.model.cluster.pools == ()
        assert all(disk.unit is None for row in sync.model.cluster.instances for disk in row.disks)
        assert asked(luxid) == []


async def test_polls_begin_when_a_pool_is_configured(autojump_clock: MockClock, tmp_path: Path) -> None:
    file = tmp_path / "config.data"
    write(file, single())
    shared, rados = (
        Pool(DesiredUnit(kind, "/mnt"), 500) for kind in (StorageType.SHARED_FILE, StorageType.RADOS)
    )
    known = polling(NEEDED)
    async with (
        ganeti(single()) as luxid,
        following_storage(luxid, known, tmp_path / "config.data") as (_, storage),
    ):
        change(known, **NEEDED, pool=(rados,))  # of which no node can be asked
        await trio.sleep(1000)
        assert (asked(luxid), storage.status()["needed"]) == ([], False)
        change(known, **NEEDED, pool=(shared,))
        await trio.sleep(60)
        assert (asked(luxid), storage.status()["needed"]) == ([UNITS], True)


async def test_one_node_is_asked_for_shared_storage(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_polls, "NODES", 1)
    pool = Unit(DesiredUnit(StorageType.SHARED_FILE, "/srv/ganeti/shared-file-storage"), 5000, 4000)
    start = world(**{name: units_of(8000, 8000, pool) for name in ("one", "two", "three")})
    async with ganeti(start) as luxid, following(luxid, ALWAYS) as sync:
        await trio.sleep(60)
        assert units(sync) == truth(luxid)
        work = [op.opcode for job in luxid.jobs.unarchived() for op in job.ops]
        assert len([op for op in work if op.get("storage_type") == "sharedfile"]) == 1
        await trio.sleep(650)
        work = [op.opcode for job in luxid.jobs.unarchived() for op in job.ops]
        assert len([op for op in work if op.get("storage_type") == "sharedfile"]) == 2


async def test_free_shared_storage_follows_the_disks(autojump_clock: MockClock, tmp_path: Path) -> None:
    unit = DesiredUnit(StorageType.SHARED_FILE, "/srv/ganeti/shared-file-storage")
    start = world(**{name: units_of(8000, 8000, Unit(unit, 5000, 4000)) for name in ("one", "two", "three")})
    write(tmp_path / "config.data", start)
    async with ganeti(start) as luxid, following(luxid, ALWAYS, tmp_path / "config.data") as sync:
        await trio.sleep(60)
        row = replace(start.cluster.instances[1], name="new", template=DiskTemplate.SHARED_FILE, dsk=700)
        row = replace(row, disks=(Disk(700, unit=unit),))
        now = luxid.jobs.world
        now = replace(now, cluster=replace(now.cluster, instances=(*now.cluster.instances, row)))
        luxid.jobs.change(now)
        write(tmp_path / "config.data", now)
        await trio.sleep(60)
        there = units(sync)["two"]
        assert there is not None
        assert Unit(unit, 5000, 3300) in there
