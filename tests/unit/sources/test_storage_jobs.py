from dataclasses import replace
from pathlib import Path

import pytest
from trio.testing import MockClock

from ganeti_htools.backends import luxi, text
from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.simulator.world import World, lose_node
from ganeti_htools.sources import storage_jobs
from ganeti_htools.sources.source import Source, read
from tests.support.configuration import config_data
from tests.support.simulated import Simulated, simulated
from tests.support.simulators import simulator
from tests.unit.simulator.test_storage_units import FILES, HDD, SSD, units, world


async def asked(master: Simulated, client: LuxiClient, warnings: list[str]) -> Cluster:
    cluster = luxi.parse(await queries.whole_cluster(client))
    return await storage_jobs.with_storage(client, cluster, warnings.append)


def found(cluster: Cluster) -> dict[str, set[Unit] | None]:
    return {node.name: None if node.storage is None else set(node.storage) for node in cluster.nodes}


async def test_nodes_and_disks_have_their_units(autojump_clock: MockClock) -> None:
    warnings: list[str] = []
    async with simulated(world()) as (master, client):
        cluster = await asked(master, client, warnings)
    assert found(cluster) == found(world().cluster)
    rows = {row.name: row.disks for row in cluster.instances}
    assert rows == {row.name: row.disks for row in world().cluster.instances}
    assert cluster.default_units[0] == HDD
    assert warnings == []


async def test_few_nodes_and_instances_are_asked_at_a_time(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_jobs, "NODES", 2)
    monkeypatch.setattr(storage_jobs, "INSTANCES", 1)
    async with simulated(world()) as (master, client):
        cluster = await asked(master, client, [])
        work = [[op.opcode for op in job.ops] for job in master.jobs.unarchived()]
    assert found(cluster) == found(world().cluster)
    assert [len(ops) for ops in work] == [1, 1, 4, 4]
    assert [ops[0].get("instances") or ops[0].get("nodes") for ops in work] == [
        ["mirrored"],
        ["filed"],
        ["one", "two"],
        ["three"],
    ]
    asked_nodes = {op["storage_type"]: op["nodes"] for op in work[2]}
    assert asked_nodes == {
        "lvm-vg": ["one", "two"],
        "file": ["one", "two"],
        "sharedfile": ["one"],
        "gluster": ["one"],
    }


async def test_only_types_that_the_cluster_enables_are_asked_for(autojump_clock: MockClock) -> None:
    start = world()
    policy = replace(start.cluster.ipolicy, disk_templates=(DiskTemplate.DRBD,))
    rows = tuple(row for row in start.cluster.instances if row.name == "mirrored")
    start = replace(start, cluster=replace(start.cluster, ipolicy=policy, instances=rows))
    async with simulated(start) as (master, client):
        await asked(master, client, [])
        [_, job] = master.jobs.unarchived()
    assert [op.opcode["storage_type"] for op in job.ops] == ["lvm-vg"]


async def test_a_node_that_does_not_answer_keeps_its_single_figure(autojump_clock: MockClock) -> None:
    warnings: list[str] = []
    async with simulated(world()) as (master, client):
        cluster = luxi.parse(await queries.whole_cluster(client))
        master.jobs.change(lose_node(master.jobs.world, "two"))
        changed = await storage_jobs.with_storage(client, cluster, warnings.append)
    assert changed.nodes[1] == cluster.nodes[1]
    assert found(changed)["one"] == found(world().cluster)["one"]
    assert warnings == ["Warning: storage units of two are not known"]


async def test_without_an_answer_nodes_keep_their_single_figures(autojump_clock: MockClock) -> None:
    warnings: list[str] = []
    async with simulated(world()) as (master, client):
        master.jobs.behaviour.fail("NODE_QUERY_STORAGE")
        cluster = await asked(master, client, warnings)
    assert found(cluster) == {"one": None, "two": None, "three": None}
    assert "NODE_QUERY_STORAGE failed as ordered" in warnings[0]


async def test_where_disks_are_has_to_be_known(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        master.jobs.behaviour.fail("INSTANCE_QUERY_DATA")
        with pytest.raises(HtoolsError, match=r"asks for disks of instances: .* failed as ordered"):
            await asked(master, client, [])


async def test_on_the_master_itself_the_configuration_tells_where_disks_are(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path))
    file = Path(storage_jobs.configuration_file())
    file.parent.mkdir(parents=True)
    file.write_text('{"cluster": {}, "nodegroups": {}, "nodes": {}, "instances": {}, "disks": {}}')
    async with simulated(world()) as (master, client):
        client.path = queries.default_socket()
        await asked(master, client, [])
        file.unlink()
        await asked(master, client, [])
        jobs = [job.ops[0].opcode["OP_ID"] for job in master.jobs.unarchived()]
    units = "OP_NODE_QUERY_STORAGE"
    assert jobs == [units, "OP_INSTANCE_QUERY_DATA", units]


def test_only_ganeti_itself_can_be_asked() -> None:
    for source in (Source(text="x"), Source(luxi="x", daemon="y"), Source(rapi="x")):
        with pytest.raises(HtoolsError, match=r"^--ask-storage: "):
            read(source._replace(ask_storage=True), print)


def test_the_real_client_reads_what_is_served(tmp_path: Path) -> None:
    """A group that no disk is on does not count, and is not there afterwards."""
    start: World = world(three=(*units(2000, 2000), Unit(HDD._replace(key="system"), 9, 9)))
    with simulator(tmp_path, start.cluster, "--job-seconds=0") as ganeti:
        cluster = read(Source(luxi=str(ganeti.socket), ask_storage=True), pytest.fail).cluster
        plain = read(Source(luxi=str(ganeti.socket)), pytest.fail).cluster
    assert found(cluster) == found(world().cluster)
    assert text.parse(text.dump(cluster), "").instances == cluster.instances
    assert all(node.storage is None for node in plain.nodes)
    assert {unit.desired for node in cluster.nodes for unit in node.storage or ()} == {HDD, SSD, FILES}


def test_warns_of_lacking_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, warnings = world(), list[str]()
    with simulator(tmp_path, start.cluster, "--job-seconds=0") as ganeti:
        monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path))
        own = Path(queries.default_socket())
        own.parent.mkdir(parents=True)
        own.symlink_to(ganeti.socket)
        read(Source(luxi=""), pytest.fail)  # no configuration that could be read
        file = Path(storage_jobs.configuration_file())
        file.parent.mkdir(parents=True)
        file.write_bytes(config_data(start))
        read(Source(luxi=""), warnings.append)
        read(Source(luxi="", ask_storage=True), pytest.fail)
        read(Source(luxi=str(ganeti.socket)), pytest.fail)  # perhaps the socket of another cluster
    why = "and it is not known which nodes have it; --ask-storage asks them"
    assert warnings == [f"Warning: disks of mirrored are on volume group ssd, {why}"]


def test_warning_names_few_of_many_instances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = world()
    one = next(row for row in start.cluster.instances if row.name == "mirrored")
    rows = tuple(replace(one, name=f"i{number}") for number in range(8))
    start = replace(start, cluster=replace(start.cluster, instances=rows))
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path))
    file = Path(storage_jobs.configuration_file())
    file.parent.mkdir(parents=True)
    file.write_bytes(config_data(start))
    nodes = tuple(replace(node, storage=None) for node in start.cluster.nodes)
    unknown = replace(start.cluster, nodes=nodes, default_units=(HDD,))
    [warning] = storage_jobs.volume_group_warnings(unknown, "x")
    assert warning.startswith("Warning: disks of i0, i1, i2, i3, i4 and 3 more are on volume group ssd, ")
    assert storage_jobs.volume_group_warnings(start.cluster, "x") == []


async def test_one_node_is_asked_for_shared_storage(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_jobs, "NODES", 2)
    pool = Unit(DesiredUnit(StorageType.SHARED_FILE, "/srv/ganeti/shared-file-storage"), 5000, 4000)
    start = world(**{name: units(8000, 8000, pool) for name in ("one", "two", "three")})
    async with simulated(start) as (master, client):
        cluster = await asked(master, client, [])
        work = [op.opcode for job in master.jobs.unarchived() for op in job.ops]
    assert found(cluster) == found(start.cluster)
    assert [op["nodes"] for op in work if op.get("storage_type") == "sharedfile"] == [["one"]]
    tagged = replace(start.cluster.nodes[1], tags=(f"htools:storage:{pool.desired}",))
    nodes = (start.cluster.nodes[0], tagged, start.cluster.nodes[2])
    async with simulated(replace(start, cluster=replace(start.cluster, nodes=nodes))) as (master, client):
        cluster = await asked(master, client, [])
    assert [row.name for row in cluster.nodes if pool in (row.storage or ())] == ["two"]
