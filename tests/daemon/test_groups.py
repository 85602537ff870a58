"""Instances that change their node groups, with the simulator as Ganeti."""

import json
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.client.calls import CallRefusedError
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.types import DiskTemplate
from tests.daemon.planning import FOR_EVER, begun, call, following, last, made, tool, until
from tests.support.by_hand import instance, node
from tests.support.programs import wait_until
from tests.support.simulators import Simulator
from tests.support.worlds import role

# Three racks of three nodes; a1 is offline, with four instances that the rest of its rack is too full for.
RACKS = Cluster(
    tuple(Group(f"rack-{rack}", f"uuid-{rack}") for rack in "abc"),
    tuple(
        node(f"{rack}{number}", used=used, group=f"uuid-{rack}", offline=rack + number == "a1", t_cpu=8.0)
        for rack, uses in (("a", (8000, 9500, 9500)), ("b", (0, 0, 0)), ("c", (0, 0, 0)))
        for number, used in zip("123", uses, strict=True)
    ),
    (
        *(instance(f"pool{number}", DiskTemplate.EXT, "a1", mem=2000) for number in range(3)),
        instance("mirror", DiskTemplate.DRBD, "a1", "a2", mem=400),
        instance("full2", DiskTemplate.EXT, "a2", mem=9500),
        instance("full3", DiskTemplate.EXT, "a3", mem=9500),
    ),
)


def racks(ganeti: Simulator) -> dict[str, set[str]]:
    """The racks that each instance has nodes in."""
    rows = ganeti.rows().instances
    return {row.name: {name[0] for name in (row.pnode, row.snode) if name} for row in rows}


def regroup(*options: object) -> tuple[int, Any]:
    done = tool("hregroup", *options, "--json")
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("letter", ["D", "L"])
def test_redistribute_repairs_a_group_once(tmp_path: Path, letter: str) -> None:
    with following(tmp_path, RACKS) as (daemon, ganeti):
        source = f"-{letter}{daemon.socket if letter == 'D' else ganeti.socket}"
        status, told = regroup("redistribute", source, "-X")
        assert (status, told["execution"]["ending"]) == (0, "done")
        assert told["repaired"] == ["rack-a"]
        for move in told["moves"]:
            assert racks(ganeti)[move["instance"]] == {move["to_group"][-1]}
        status, told = regroup("redistribute", source, "-X")
        assert (status, told["moves"]) == (0, [])


def test_replans_when_a_node_goes_offline_during_a_plan(tmp_path: Path) -> None:
    with following(tmp_path, RACKS, FOR_EVER) as (daemon, ganeti):
        plan = begun(daemon, "hregroup", action="redistribute")
        first, *rest = plan["found"]["steps"]
        away = next(name for step in rest for name in step["to"] if name not in first["to"])
        ganeti.ask("SubmitJob", [role(away, offline=True)])
        wait_until(lambda: len(ganeti.tell("jobs")) == 2)
        ganeti.finish()
        ended = until(daemon, "done")
        assert ended["execution"]["replanned"]
        assert all(away not in job["to"] for job in ended["execution"]["jobs"])
        assert all("a" not in racks(ganeti)[f"pool{number}"] for number in range(3))


def test_failed_job_leaves_its_instance_and_a_new_plan_repairs_it(tmp_path: Path) -> None:
    with following(tmp_path, RACKS) as (daemon, ganeti):
        ganeti.tell("fail", "INSTANCE_MIGRATE\\(pool1", 1)
        done = tool("hregroup", "redistribute", f"-D{daemon.socket}", "-X")
        assert done.returncode == 1
        assert "pool1" in done.stderr
        assert "a" in racks(ganeti)["pool1"]
        status, _ = regroup("redistribute", f"-D{daemon.socket}", "-X")
        assert (status, racks(ganeti)["pool1"] & {"a"}) == (0, set())


def test_plan_locks_all_groups_that_it_may_touch(tmp_path: Path) -> None:
    with following(tmp_path, RACKS, FOR_EVER) as (daemon, _):
        balancing = made(daemon, group="rack-c")["id"]
        between = made(daemon, "hregroup", among=["rack-a", "rack-b"])["id"]
        everywhere = made(daemon, "hregroup")["id"]
        assert last(daemon)["groups"] == ["rack-a", "rack-b", "rack-c"]
        call(daemon, "execute", plan=between)
        with pytest.raises(CallRefusedError):
            call(daemon, "execute", plan=everywhere)
        call(daemon, "execute", plan=balancing)


def test_compress_empties_a_group(tmp_path: Path) -> None:
    with following(tmp_path, RACKS) as (daemon, ganeti):
        assert regroup("redistribute", f"-D{daemon.socket}", "-X", "-Grack-a", "-Grack-b")[0] == 0
        status, told = regroup("compress", f"-D{daemon.socket}", "-X", "--group=rack-b")
        assert (status, told["emptied"]) == (0, ["rack-b"])
        assert not any("b" in there for there in racks(ganeti).values())


# Two racks of two nodes with little on them.
ROOMY = Cluster(
    RACKS.groups[:2],
    tuple(
        node(f"{rack}{number}", used=used, group=f"uuid-{rack}")
        for rack, used in (("a", 3000), ("b", 1000))
        for number, used in (("1", used), ("2", 0))
    ),
    (
        instance("large", DiskTemplate.EXT, "a1", mem=2000),
        instance("small", DiskTemplate.EXT, "a1", mem=1000),
        instance("other", DiskTemplate.EXT, "b1", mem=1000),
    ),
)


def test_the_daemon_plans_as_the_tool_does(tmp_path: Path) -> None:
    with following(tmp_path, ROOMY) as (daemon, ganeti):
        for action in ("compress", "balance"):
            asked = [regroup(action, f"-{source}") for source in (f"D{daemon.socket}", f"L{ganeti.socket}")]
            (by_daemon, told), (alone, found) = asked
            assert (by_daemon, alone) == (0, 0)
            assert told == found
            assert told["moves"]
        assert len(regroup("compress", f"-D{daemon.socket}")[1]["possible"]) == 2
