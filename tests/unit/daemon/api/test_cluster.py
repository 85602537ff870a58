from typing import Any

import numpy as np
import orjson
import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.backends import ganeti_storage, load_profiles, luxi
from ganeti_htools.client.protocol import RefusalError
from ganeti_htools.luxi import relayed
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.load import HOURS, LOAD_KINDS, LoadProfile
from htoolsd.api.cluster import ClusterMethods
from htoolsd.load.measured_load import MeasuredLoad
from htoolsd.plans.plans import Plans
from htoolsd.sync.reserved_room import Reservations
from htoolsd.sync.sync import Sync
from tests.support.memory_ganeti import described, following, ganeti, truth
from tests.support.settings import settings, unjudged
from tests.support.worlds import delay, migrate, role


def methods_of(sync: Sync) -> ClusterMethods:
    return ClusterMethods(sync, Plans("", sync, sync.events, unjudged()), MeasuredLoad("", settings(), sync))


async def test_cluster_answer_follows_the_model(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        methods = methods_of(sync)

        async def ask(name: str) -> Any:
            return orjson.loads(orjson.dumps(await getattr(methods, name)({}, None)))

        for name in ("cluster", "storage"):
            with pytest.raises(RefusalError, match=r"^the cluster is not known yet$"):
                await ask(name)
        await trio.sleep(2)
        told = await ask("cluster")
        assert relayed.from_json(told) == sync.model.answers
        assert told["ages"] == {"configuration": 2, "live": 2}
        assert (told["late"], told["error"], told["silent"]) == (False, None, [])
        units = await ask("storage")
        assert sync.model.cluster
        rooms = [
            {"node": node.name, "total": int(node.t_dsk), "free": node.f_dsk}
            for node in sync.model.cluster.nodes
        ]
        assert units["units"] == [{"type": None, "key": None, "nodes": rooms}]
        assert (units["ages"], units["late"]) == (told["ages"], False)
        luxid.jobs.submit([[role("two", drained=True)]])
        await trio.sleep(10)
        assert await ask("cluster") != told
        told = await ask("cluster")
        assert relayed.from_json(told) == sync.model.answers
        assert told["generations"] == sync.model.generations
        assert (await ask("refresh"))["ages"] == {"configuration": 0, "live": 0}


async def test_waits_for_figures_as_new_as_the_instances(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(2)
        luxid.jobs.submit([[delay(500)], [migrate("mirrored")]])
        await trio.sleep(1)
        asked: Any = await methods_of(sync).cluster({"fresh": True}, None)
        assert (asked["updating"], asked["updating_error"]) == ([], None)
        assert described(sync) == truth(luxid)
        luxid.hung = True
        luxid.jobs.submit([[migrate("mirrored")]])
        await trio.sleep(1.5)
        asked = await methods_of(sync).cluster({"fresh": True}, None)
        assert asked["updating"] == ["one", "two"]
        assert asked["updating_error"] == "no answer within 10 s"
        assert described(sync) == truth(luxid)


async def test_cluster_answer_has_reservations(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(2)
        there = (("CUSTOM_GPU", Inventory(4, 1, max_unit=2)), ("MEMORY_MB", Inventory(0, 512)))
        await sync.reserve(Reservations({"two": there}))
        told = orjson.loads(orjson.dumps(await methods_of(sync).cluster({}, None)))
        cluster = ganeti_storage.with_storage_json(luxi.parse(relayed.from_json(told)), told["storage"])
        assert {node.name: node.inventories for node in cluster.nodes if node.inventories} == {"two": there}
        assert sync.model.cluster
        assert [node.inventories for node in cluster.nodes] == [
            node.inventories for node in sync.model.cluster.nodes
        ]


async def test_cluster_has_measured_load_when_asked(autojump_clock: MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(2)
        methods, hours = methods_of(sync), np.full((len(LOAD_KINDS), HOURS), 0.5)
        with pytest.raises(RefusalError, match=r"^the load is not known: \[load\] is off$"):
            await methods.cluster({"load": True}, None)
        await sync.count_load({"instance1": LoadProfile(hours, 2 * hours, hours[:, 0])})
        told = orjson.loads(orjson.dumps(await methods.cluster({"load": True}, None)))
        assert (load_profiles.from_json(told["load"])["instance1"].peak == 1).all()
        assert told["generations"]["load"] == 1
        assert "load" not in orjson.loads(orjson.dumps(await methods.cluster({}, None)))
