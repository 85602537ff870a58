"""Inventories of administrators limit decisions, and reach the next master, the fallback and tools."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.planning import OFTEN, ctl, following, lines, tool
from tests.support.clusters import Json, Shape, cluster
from tests.support.messages import allocate, encode, message
from tests.support.programs import Daemon, hail, running, wait_until
from tests.support.rows import rows
from tests.support.simulators import Simulator
from tests.support.worlds import opcode

DATA = cluster(5, Shape(nodes=4, instances=0))
NODE, OTHER = sorted(DATA["nodes"])[1:3]
GPU = "htools:resource:CUSTOM_GPU:1"


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Daemon, Simulator]]:
    with following(tmp_path, rows(DATA)) as (daemon, ganeti):
        wait_until(lambda: daemon.status()["ledger"]["lag_s"] is not None)
        yield daemon, ganeti


def request(ganeti: Simulator, name: str, *tags: str) -> str:
    """A request as Ganeti makes it now: with the tags of nodes."""
    now = ganeti.rows()
    data = dict(DATA, nodes={row.name: DATA["nodes"][row.name] | {"tags": row.tags} for row in now.nodes})
    return encode(message(data, allocate(name, "plain", tags=tags)))


def inventories(daemon: Daemon) -> dict[str, set[str]]:
    """The custom classes of each node in the ledger."""
    told: list[Json] = json.loads(ctl(daemon, "inventory", "--json").stdout)
    return {
        each["name"].partition("/")[2]: {name for name in each["inventories"] if "GPU" in name}
        for each in told
    }


def test_next_master_knows_inventories_and_what_was_removed(
    both: tuple[Daemon, Simulator], tmp_path: Path
) -> None:
    first, ganeti = both
    lines(first, "inventory", "set", NODE, "CUSTOM_GPU", "--total=2", "--max-unit=1")
    lines(first, "inventory", "set", NODE, "CUSTOM_GPU", "--reserved=1")
    shown = lines(first, "inventory", "set", OTHER, "MEMORY_MB", "--reserved=100")
    assert any(line.split()[1:4:2] == ["MEMORY_MB", "100"] for line in shown[1:])
    tags = {row.name: row.tags for row in ganeti.rows().nodes}
    assert tags[NODE] == ("htools:inventory:CUSTOM_GPU:2:1:1:1",)
    assert tags[OTHER] == ("htools:inventory:MEMORY_MB:-:100",)
    before = lines(first, "inventory", NODE)[1:]
    first.kill()
    luxi = "--luxi", str(ganeti.socket)
    with running(tmp_path / "second", config=OFTEN, options=luxi) as second:
        wait_until(lambda: inventories(second).get(NODE) == {"CUSTOM_GPU"})
        assert lines(second, "inventory", NODE)[1:] == before
        lines(second, "inventory", "set", NODE, "CUSTOM_GPU", "--remove")
        second.kill()
    assert all(not row.tags or row.name == OTHER for row in ganeti.rows().nodes)
    with running(tmp_path / "daemon", config=OFTEN) as again:  # the ledger there had it from the tag
        wait_until(lambda: inventories(again)[NODE] == set())


def test_fallback_and_tools_decide_by_the_tags(both: tuple[Daemon, Simulator], tmp_path: Path) -> None:
    daemon, ganeti = both
    lines(daemon, "inventory", "set", NODE, "CUSTOM_GPU", "--total=1")
    path = tmp_path / "request"
    path.write_text(request(ganeti, "new.example.org", GPU))
    assert json.loads(hail(path, "--no-capacity-checks").stdout)["result"] == [NODE]
    (tmp_path / "cluster").write_text(ganeti.cluster())
    options = "--resource=CUSTOM_GPU:1", "--disk-template=plain", "--no-capacity-checks"
    assert "\n  -   1 instances allocated\n" in tool("hspace", "-t", tmp_path / "cluster", *options).stdout
    path.write_text(request(ganeti, "new.example.org", GPU.replace(":1", ":2")))
    assert "FailResource" in json.loads(hail(path, "--no-capacity-checks").stdout)["info"]


def test_refuses_to_set_what_no_tag_can_hold_and_without_ganeti(both: tuple[Daemon, Simulator]) -> None:
    daemon, ganeti = both
    long = f"CUSTOM_{'X' * 120}"
    done = ctl(daemon, "inventory", "set", NODE, long, "--total=1")
    assert done.returncode == 1
    assert "too long for a tag of Ganeti; expected at most 109 characters" in done.stderr
    ganeti.process.kill()
    wait_until(lambda: daemon.status()["luxi"]["state"] == "unreachable")
    done = ctl(daemon, "inventory", "set", NODE, "CUSTOM_GPU", "--total=1")
    assert done.returncode == 1
    assert f"{NODE}: its tags cannot be read: " in done.stderr
    assert "CUSTOM_GPU" not in "".join(lines(daemon, "inventory", NODE))


def test_claims_the_best_candidate_and_says_what_it_replaces(both: tuple[Daemon, Simulator]) -> None:
    daemon, _ = both
    for node, total in ((NODE, 2), (OTHER, 4)):
        lines(daemon, "inventory", "set", node, "CUSTOM_GPU", f"--total={total}")
    name = json.loads(ctl(daemon, "providers", "--json").stdout)[0]["name"].partition("/")[0]
    assert [line.split() for line in lines(daemon, "candidates", "CUSTOM_GPU=1")] == [
        ["Provider", "Left"],
        [f"{name}/{OTHER}", "75.0%"],
        [f"{name}/{NODE}", "50.0%"],
    ]
    assert lines(daemon, "candidates", "CUSTOM_GPU=5") == ["no node or pool has room for this"]
    claimed = f"  {name}/{OTHER}: CUSTOM_GPU 3"
    assert lines(daemon, "claim", "--any", "tests", "CUSTOM_GPU=3") == [f"{name}/tests (claim)", claimed]
    old = ctl(daemon, "claim", "--any", "--generation=0", "tests", "CUSTOM_GPU=1")
    assert (old.returncode, "its generation is 1, not 0" in old.stderr) == (1, True)
    again = lines(daemon, "claim", "--any", "--generation=1", "tests", "CUSTOM_GPU=4")
    assert again[1:] == [f"  {name}/{OTHER}: CUSTOM_GPU 4", f"  in place of{claimed[1:]}"]
    refused = ctl(daemon, "claim", "--any", "more", "CUSTOM_GPU=3")
    assert (refused.returncode, refused.stderr) == (1, "htoolsctl: no node or pool has room for this claim\n")
    group = DATA["nodegroups"][DATA["nodes"][NODE]["group"]]["name"]
    claimed = f"  {name}/{NODE}: CUSTOM_GPU 2"
    assert lines(daemon, "claim", "--any", "more", f"--group={group}", "CUSTOM_GPU=2")[1] == claimed
    refused = ctl(daemon, "candidates", "CUSTOM_GPU=1", "--group=nowhere")
    assert "there is no node group nowhere" in refused.stderr


def test_setting_replaces_tags_of_the_class_and_goes_with_its_last_figure(
    both: tuple[Daemon, Simulator],
) -> None:
    daemon, ganeti = both
    by_hand = [f"htools:inventory:{tag}" for tag in ("CUSTOM_GPU:4", "CUSTOM_GPU:2", "MEMORY_MB:-:100")]
    ganeti.ask("SubmitJob", [opcode("TAGS_SET", kind="node", name=NODE, tags=by_hand)])
    wait_until(lambda: inventories(daemon).get(NODE) == {"CUSTOM_GPU"})
    lines(daemon, "inventory", "set", NODE, "CUSTOM_GPU", "--max-unit=1")
    lines(daemon, "inventory", "set", NODE, "MEMORY_MB", "--reserved=0")
    tags = {row.name: row.tags for row in ganeti.rows().nodes}
    assert tags[NODE] == ("htools:inventory:CUSTOM_GPU:2:0:1:1",)  # of two tags the smaller one counted
    assert not any(line.startswith("In this ledger only") for line in lines(daemon, "inventory", NODE))


def say(daemon: Daemon, node: str, name: str, *figures: str) -> None:
    """Set an inventory; return when decisions count it."""
    before = daemon.status()["cluster"]["generations"].get("ledger", 0)
    assert ctl(daemon, "inventory", "set", node, name, *figures).returncode == 0
    wait_until(lambda: daemon.status()["cluster"]["generations"].get("ledger", 0) > before)


def decide(
    daemon: Daemon,
    directory: Path,
    name: str,
    memory: int = 128,
    tags: tuple[str, ...] = (),
    vcpus: int = 1,
) -> Json:
    path = directory / name
    request = allocate(name, "plain", memory=memory, tags=tags, vcpus=vcpus)
    path.write_text(encode(message(DATA, request)))
    done = ctl(daemon, "decide", path, "--json", "--claim", "--no-capacity-checks=")
    answer: Json = json.loads(done.stdout)
    return answer


def test_instances_go_where_their_custom_class_is(both: tuple[Daemon, Simulator], tmp_path: Path) -> None:
    daemon, _ = both
    say(daemon, NODE, "CUSTOM_GPU", "--total=2", "--reserved=1")
    assert decide(daemon, tmp_path, "new1.example.org", tags=(GPU,))["result"] == [NODE]
    assert "CUSTOM_GPU" in ctl(daemon, "allocations", "new1.example.org").stdout
    refused = decide(daemon, tmp_path, "new2.example.org", tags=(GPU,))
    assert not refused["success"]
    assert "CUSTOM_GPU" in refused["info"]
    assert decide(daemon, tmp_path, "new3.example.org")["success"]


def test_reserved_memory_is_not_allocated(both: tuple[Daemon, Simulator], tmp_path: Path) -> None:
    daemon, _ = both
    free = min(node["free_memory"] for node in DATA["nodes"].values())
    others = [name for name in DATA["nodes"] if name != NODE]
    for name in others:
        say(daemon, name, "MEMORY_MB", f"--reserved={DATA['nodes'][name]['total_memory']}")
    wanted = min(free // 2, 1024)
    assert decide(daemon, tmp_path, "new1.example.org", wanted)["result"] == [NODE]


def test_instance_is_refused_where_nodes_limit_its_virtual_cpus(
    both: tuple[Daemon, Simulator], tmp_path: Path
) -> None:
    daemon, _ = both
    for name in DATA["nodes"]:
        say(daemon, name, "VCPU", "--max-unit=2")
    refused = decide(daemon, tmp_path, "new1.example.org", vcpus=4)
    assert not refused["success"]
    assert "most missing: VCPU for one instance (max_unit); closest: " in refused["info"]
    assert decide(daemon, tmp_path, "new2.example.org", vcpus=2)["success"]
    assert "over_capacity" not in ctl(daemon, "allocations", "new2.example.org").stdout
