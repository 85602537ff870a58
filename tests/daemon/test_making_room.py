"""A plan of the daemon makes room for a new instance, and claims it."""

import json
from pathlib import Path

import pytest

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.types import DiskTemplate
from tests.daemon.planning import call, ctl, following, until
from tests.support import by_hand, messages
from tests.support.clusters import Shape, cluster
from tests.support.programs import Daemon, wait_until

pytestmark = pytest.mark.usefixtures("heeding")

TEST = "--no-capacity-checks="
FULL = by_hand.cluster(
    dict.fromkeys(("n0", "n1", "n2"), 4000),
    [
        by_hand.instance("a", DiskTemplate.EXT, "n0", mem=2000),
        by_hand.instance("b", DiskTemplate.EXT, "n1", mem=1500),
        by_hand.instance("c", DiskTemplate.EXT, "n2", mem=1000, tags=("htools:fixed",)),
    ],
)


def request(tmp_path: Path, name: str, rows: Cluster) -> Path:
    """A request for an instance that needs a node alone."""
    data = cluster(3, Shape(nodes=1, instances=0))
    node = next(iter(data["nodes"].values()))
    group = next(iter(data["nodegroups"].values()))
    memory = {"total_memory": 4000, "reserved_memory": 0}
    nodes = {row.name: {**node, **memory, "group": "uuid-1", "free_memory": row.f_mem} for row in rows.nodes}
    data = {**data, "nodegroups": {"uuid-1": {**group, "name": "group1"}}, "nodes": nodes, "instances": {}}
    new = messages.allocate(name, "ext", memory=3500, disks=[1024])
    path = tmp_path / name
    path.write_text(messages.encode(messages.message(data, new)))
    return path


def claims(daemon: Daemon) -> list[str]:
    """The names of the instances that claim something before they exist."""
    consumers = json.loads(ctl(daemon, "allocations", "--json").stdout)
    return [each["name"] for each in consumers if each["name"].endswith("/new")]


def test_plan_makes_room_and_claims_it(tmp_path: Path) -> None:
    with following(tmp_path, FULL) as (daemon, ganeti):
        path = request(tmp_path, "new", FULL)
        shown = ctl(daemon, "decide", path, "--make-room", TEST)
        assert shown.returncode == 0
        assert "most missing: memory" in shown.stdout
        assert "It finds one on n1 after 1 move (1.5 GiB to copy):" in shown.stdout
        (plan,) = call(daemon, "plans")
        assert (plan["tool"], plan["groups"]) == ("hail", ["group1"])
        assert f"'htoolsctl execute {plan['id']}' makes room and claims it" in shown.stdout
        assert claims(daemon) == []
        assert ctl(daemon, "execute", plan["id"]).returncode == 0
        assert until(daemon, "done")["execution"]["jobs"][0]["title"] == "b: n1 => n2"
        wait_until(lambda: claims(daemon) == ["cluster/new"])
        after = ganeti.rows()
        assert {row.name: row.pnode for row in after.instances} == {"a": "n0", "b": "n2", "c": "n2"}
        # The claim is for this instance only.
        assert "=> n1" in ctl(daemon, "decide", request(tmp_path, "new", after), TEST).stdout
        refused = ctl(daemon, "decide", request(tmp_path, "other", after), TEST)
        assert "resources are claimed for new" in refused.stdout


def test_makes_room_for_the_last_refusal_or_a_description(tmp_path: Path) -> None:
    with following(tmp_path, FULL) as (daemon, _):
        unknown = ctl(daemon, "make-room", "new")
        assert unknown.returncode == 1
        assert "new: not refused within a day; describe it with --memory and --disk" in unknown.stderr
        assert "most missing: memory" in ctl(daemon, "decide", request(tmp_path, "new", FULL), TEST).stdout
        wait_until(lambda: call(daemon, "history", instance="new"))
        by_name = ctl(daemon, "make-room", "new", TEST)
        described = ctl(
            daemon,
            "make-room",
            "two",
            "--memory=3500",
            "--disk=1024",
            "--disk-template=ext",
            "--group=group1",
            TEST,
        )
        for name, shown in (("new", by_name), ("two", described)):
            assert (shown.returncode, shown.stderr) == (0, ""), name
            assert "It finds one on n1 after 1 move (1.5 GiB to copy):" in shown.stdout


def test_refusals_say_why(tmp_path: Path) -> None:
    with following(tmp_path, FULL) as (daemon, _):
        path = request(tmp_path, "new", FULL)
        refused = ctl(daemon, "decide", path, "--make-room", "--max-copy=1g", TEST)
        assert refused.returncode == 1
        why = "new: no plan of at most 6 moves that copy at most 1024 MiB makes room for it"
        assert refused.stderr.endswith(f"htoolsctl: refused (bad-plan): {why}\n")
        assert call(daemon, "plans") == []
        needless = ctl(daemon, "decide", path, "--max-moves=1", TEST)
        assert "--max-moves and --max-copy need --make-room" in needless.stderr
