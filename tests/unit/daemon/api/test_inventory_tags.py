"""Inventories that are written to tags."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.client.protocol import RefusalError
from ganeti_htools.model.inventory import Inventory
from htoolsd.api.inventory_tags import InventoryTags
from tests.support.memory_ganeti import following, ganeti
from tests.support.worlds import world

SAN = "htools:inventory:ext/san:-:0:5"


async def test_pool_takes_no_class_that_decisions_do_not_look_at(autojump_clock: MockClock) -> None:
    start = world()
    node, *others = start.cluster.nodes
    seeing = replace(node, tags=("htools:storage:ext/san",))
    start = replace(start, cluster=replace(start.cluster, nodes=(seeing, *others)))
    async with ganeti(start) as luxid, following(luxid) as sync:
        await sync.poll_all()
        reconciler: Any = SimpleNamespace(reconcile=trio.lowlevel.checkpoint)
        tags = InventoryTags(sync, reconciler)
        await tags.write("ext/san", "CUSTOM_DISK_MIB_POOL", Inventory(0, 0, 5))
        assert luxid.jobs.world.cluster.tags == (SAN,)
        with pytest.raises(RefusalError, match=r"decisions look at no CUSTOM_IOPS of a pool"):
            await tags.write("ext/san", "CUSTOM_IOPS", Inventory(7))
        assert luxid.jobs.world.cluster.tags == (SAN,)
