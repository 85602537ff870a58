from dataclasses import replace
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from ganeti_htools.luxi.client import LAST_PAUSE
from ganeti_htools.model.types import Status
from ganeti_htools.simulator.jobs import Jobs
from ganeti_htools.simulator.logical_units import carry_out
from ganeti_htools.simulator.world import lose_node, restore_node, with_role
from htoolsd.sync.sync import RETRY, NotSyncedError
from tests.support.memory_ganeti import described, following, ganeti, truth
from tests.support.settings import change, settings
from tests.support.worlds import delay, migrate, node, opcode, replace_disks, world


async def test_model_equals_the_cluster(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        assert (sync.model.cluster, sync.late) == (None, True)
        await trio.sleep(1)
        assert described(sync) == truth(luxid)
        assert (sync.luxi.state, sync.master, sync.late) == ("reachable", True, False)
        assert sync.ages() == {"configuration": 1, "live": 1}


async def test_configuration_is_polled_often_and_live_data_rarely(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid):
        await trio.sleep(301)
        for table in ("node", "instance", "group", "QueryClusterInfo", "job"):
            assert luxid.times(table) == list(range(0, 301, 5))
        assert luxid.times("live node") == luxid.times("live instance") == [0, 300]


async def test_configuration_changes_are_known_at_the_next_poll(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(1)
        first = sync.model
        shared = luxid.jobs.world.instance("shared")
        assert shared is not None
        luxid.jobs.change(luxid.jobs.world.with_instance(replace(shared, mem=2000)))
        await trio.sleep(5)
        assert described(sync) == truth(luxid)
        assert first.generations | {"instances": 2, "live_instances": 2} == sync.model.generations
        assert luxid.times("live node") == [0]


async def test_live_data_is_polled_when_jobs_have_ended(autojump_clock: MockClock) -> None:
    async with ganeti(job_seconds=17) as luxid, following(luxid) as sync:
        await trio.sleep(101)
        luxid.jobs.submit([[migrate("mirrored")], [delay(50)]])
        await trio.sleep(45)
        assert sync.status()["unfinished_jobs"] == 1
        assert luxid.times("live node") == [0]
        await trio.sleep(10)
        assert luxid.times("live node") == [0, 155]
        assert described(sync) == truth(luxid)


async def test_nodes_of_changed_instances_are_asked_at_once(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(101)
        luxid.jobs.submit([[delay(500)], [migrate("mirrored")]])
        await trio.sleep(5)
        assert luxid.times("live some node") == luxid.times("live some instance") == [105]
        assert (sync.model.updating, described(sync)) == ([], truth(luxid))
        luxid.hung = True
        luxid.jobs.submit([[migrate("mirrored")]])
        await trio.sleep(5)
        assert sync.model.updating == ["one", "two"]
        assert described(sync) == truth(luxid)
        assert luxid.times("live node") == [0]


async def test_nodes_are_asked_again_when_a_job_on_an_instance_ends(autojump_clock: MockClock) -> None:
    """The job changes the configuration long before it stops the instance."""
    async with ganeti(job_seconds=20) as luxid, following(luxid) as sync:
        await trio.sleep(101)
        luxid.jobs.submit([[delay(500)], [opcode("INSTANCE_ACTIVATE_DISKS", instance_name="mirrored")]])
        found, one = luxid.jobs.world.instance("mirrored"), luxid.jobs.world.node("one")
        assert found is not None
        assert one is not None
        luxid.jobs.change(luxid.jobs.world.with_instance(replace(found, status=Status.ERROR_UP)))
        await trio.sleep(10)
        assert described(sync) == truth(luxid)
        stopped = luxid.jobs.world.with_instance(replace(found, status=Status.DOWN))
        luxid.jobs.change(stopped.with_nodes([replace(one, f_mem=one.f_mem + found.mem)]))
        await trio.sleep(20)
        assert described(sync) == truth(luxid)
        assert luxid.times("live some node") == [105, 125]
        assert luxid.times("live node") == [0]


async def test_nodes_that_an_instance_has_left_are_asked_again_when_the_job_ends(
    autojump_clock: MockClock,
) -> None:
    """Ganeti removes the disks of the old secondary after it has changed the configuration."""
    async with ganeti(job_seconds=20) as luxid, following(luxid) as sync:
        await trio.sleep(101)
        old = luxid.jobs.world.node("two")
        assert old is not None
        after, _ = carry_out(luxid.jobs.world, replace_disks("mirrored", "three"))
        luxid.jobs.submit([[delay(500)], [opcode("INSTANCE_ACTIVATE_DISKS", instance_name="mirrored")]])
        luxid.jobs.change(after.with_nodes([old]))
        await trio.sleep(10)
        assert described(sync) == truth(luxid)
        luxid.jobs.change(after)
        await trio.sleep(20)
        assert described(sync) == truth(luxid)
        assert luxid.times("live node") == [0]


async def test_waits_for_figures_or_gives_the_reason(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(1)
        assert await sync.poll_updates() is None
        luxid.jobs.submit([[delay(500)], [migrate("mirrored")]])
        await trio.sleep(2)
        await sync.poll_configuration()
        assert sync.model.updating == ["one", "two"]
        assert await sync.poll_updates() is None
        assert sync.model.updating == []
        luxid.hung = True
        luxid.jobs.submit([[migrate("mirrored")]])
        await trio.sleep(2)
        await sync.poll_configuration()
        assert await sync.poll_updates() == "no answer within 10 s"
        await sync.poll_all()
        assert sync.model.updating == []


async def test_short_job_between_two_polls_is_noticed(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(101)
        luxid.jobs.submit([[migrate("mirrored")]])
        await trio.sleep(5)
        assert luxid.times("live node") == [0, 105]
        assert described(sync) == truth(luxid)


async def test_frequent_jobs_do_not_cause_frequent_live_polls(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid):
        for _ in range(100):
            luxid.jobs.submit([[delay(1)]])
            await trio.sleep(3)
        times = luxid.times("live node")
        assert len(times) == 30
        assert min(b - a for a, b in pairwise(times)) >= 10


async def test_live_data_is_polled_on_request(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(11)
        sync.request_live_data()
        await trio.sleep(1)
        await sync.poll_all()
        assert luxid.times("live node") == [0, 11, 12]
        assert luxid.times("node") == [0, 5, 10, 12]
        assert sync.ages() == {"configuration": 0, "live": 0}


async def test_new_node_is_used_after_its_first_report(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(11)
        nodes = (*luxid.jobs.world.cluster.nodes, node("new"))
        luxid.jobs.change(replace(luxid.jobs.world, cluster=replace(luxid.jobs.world.cluster, nodes=nodes)))
        luxid.stuck = True
        await trio.sleep(6)
        assert sync.model.silent == ("new",)
        assert luxid.times("live node") == [0, 15]
        luxid.leave()
        luxid.away = luxid.stuck = False
        await trio.sleep(2 * RETRY)
        assert not sync.model.silent
        assert described(sync) == truth(luxid)


async def test_returning_node_is_asked_at_once(autojump_clock: MockClock) -> None:
    start = with_role(world(), "two", offline=True, drained=False)
    async with ganeti(start) as luxid, following(luxid) as sync:
        await trio.sleep(1)
        assert described(sync) == truth(luxid)
        luxid.jobs.change(with_role(luxid.jobs.world, "two", offline=False, drained=False))
        await trio.sleep(5)
        assert luxid.times("live node") == [0, 5]
        assert described(sync) == truth(luxid)
        luxid.jobs.change(with_role(luxid.jobs.world, "one", offline=True, drained=False))
        await trio.sleep(5)
        assert luxid.times("live node") == [0, 5]
        assert described(sync) == truth(luxid)


async def test_silent_node_counts_as_offline(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid, live=20) as sync:
        luxid.jobs.change(lose_node(luxid.jobs.world, "two"))
        await trio.sleep(19)
        assert sync.model.silent == ("two",)
        assert described(sync) == truth(luxid)
        assert luxid.times("live node") == [0]
        luxid.jobs.change(restore_node(luxid.jobs.world, "two"))
        await trio.sleep(20)
        assert not sync.model.silent
        assert described(sync) == truth(luxid)


async def test_model_stays_and_ages_while_luxid_is_unreachable(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(1)
        known, before = described(sync), len(luxid.attempts)
        luxid.leave()
        await trio.sleep(1000)
        assert described(sync) == known
        assert sync.ages() == {"configuration": 1001, "live": 1001}
        assert (sync.luxi.state, sync.late) == ("unreachable", True)
        assert "No such file" in str(sync.luxi.error)
        gaps = [b - a for a, b in pairwise(luxid.attempts[before:])]
        assert len(gaps) < 2 * 1000 / LAST_PAUSE
        luxid.away = False
        await trio.sleep(LAST_PAUSE + 6)
        assert (sync.luxi.state, sync.late) == ("reachable", False)
        assert max(sync.ages().values()) < 36


async def test_live_data_is_polled_when_luxid_is_back(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(41)
        luxid.leave()
        await trio.sleep(6)
        assert sync.late
        await trio.sleep(14)
        luxid.away = False
        await trio.sleep(30)
        assert len(luxid.times("live node")) == 2
        assert sync.ages()["live"] < 30


async def test_failed_refresh_gives_the_reason(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(1)
        luxid.leave()
        with pytest.raises(NotSyncedError, match=r"^configuration: /luxi: Ganeti cannot be reached"):
            await sync.poll_all()
        luxid.master = False
        await trio.sleep(5)
        with pytest.raises(NotSyncedError, match=r"^this is not the master node$"):
            await sync.poll_all()


async def test_slow_live_data_does_not_delay_the_configuration(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(1)
        luxid.stuck = True
        sync.request_live_data()
        await trio.sleep(500)
        assert sync.ages()["configuration"] <= 5
        assert sync.luxi.state == "reachable"
        assert "no answer within 180 s" in sync.status()["polls"]["live"]["error"]
        assert luxid.times("live node") == [0, 1, 1 + 180 + RETRY, 1 + 2 * (180 + RETRY)]


async def test_polls_stop_and_resume_with_the_master_role(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid:
        luxid.master = False
        async with following(luxid) as sync:
            await trio.sleep(100)
            assert (luxid.attempts, sync.master, sync.luxi.state) == ([], False, "not asked")
            luxid.master = True
            await trio.sleep(6)
            assert described(sync) == truth(luxid)
            luxid.master = False
            await trio.sleep(5)
            asked = len(luxid.asked)
            await trio.sleep(1000)
            assert (len(luxid.asked), sync.late, sync.luxi.state) == (asked, True, "not asked")
            luxid.master = True
            luxid.jobs.change(lose_node(luxid.jobs.world, "two"))
            await trio.sleep(6)
            assert (sync.late, sync.luxi.state) == (False, "reachable")
            assert described(sync) == truth(luxid)


async def test_waiting_refresh_fails_when_the_role_is_lost(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(1)
        luxid.stuck = True
        async with trio.open_nursery() as nursery:

            async def refresh() -> None:
                with pytest.raises(NotSyncedError, match="not the master"):
                    await sync.poll_all()

            nursery.start_soon(refresh)
            await wait_all_tasks_blocked()
            luxid.master = False


@pytest.mark.parametrize(
    "garble",
    [
        (b'[0,"one"]', b'[0,["one"]]'),
        (b'[[0,"one"]', b'[[0,"none"]'),
        (b'[0,"one"]', b"[0,null]"),
        (b'[0,"one"]', b"[2,null]"),
        (b'"success":true', b'"success":false'),
        (b'"data":[', b'"dates":['),
        (b"[0,", b"[7,"),
        (b"}", b""),
        (b'"name":"cluster"', b'"name":null'),
    ],
)
async def test_invalid_answer_leaves_the_model_unchanged(
    autojump_clock: MockClock, garble: tuple[bytes, bytes]
) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(1)
        known = sync.model
        luxid.garble = garble
        await trio.sleep(100)
        assert sync.model is known
        with pytest.raises(NotSyncedError, match=r"^configuration: ."):
            await sync.poll_all()
        luxid.garble = (b"", b"")
        await trio.sleep(60)
        await sync.poll_all()
        assert described(sync) == truth(luxid)


async def test_node_without_figures_causes_no_extra_poll(
    autojump_clock: MockClock,
) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(1)
        luxid.garble = (b'[[0,"two"],[0,4096]', b'[[0,"two"],[4,null]')
        sync.request_live_data()
        await trio.sleep(200)
        assert sync.model.silent == ("two",)
        assert luxid.times("live node") == [0, 1]


async def test_jobs_of_another_master_are_noticed(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        luxid.jobs.submit([[delay(1)] for _ in range(9)])
        await trio.sleep(41)
        luxid.master = False
        await trio.sleep(10)
        luxid.jobs = Jobs(luxid.nursery, luxid.jobs.world, luxid.jobs.behaviour)
        luxid.master = True
        await trio.sleep(100)
        polls = len(luxid.times("live node"))
        luxid.jobs.submit([[delay(1)]])
        await trio.sleep(6)
        assert len(luxid.times("live node")) == polls + 1
        assert not sync.late


async def test_changed_intervals_count_at_once(autojump_clock: MockClock) -> None:
    known = settings(config_seconds=1000.0)
    async with ganeti() as luxid, following(luxid, known=known):
        await trio.sleep(100)
        before = len(luxid.times("node"))
        change(known, config_seconds=5.0)
        await trio.sleep(12)
        assert len(luxid.times("node")) == before + 2
