"""Memory of the process."""

import gc
import weakref

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from htoolsd.process import memory


class Node:
    """A node of a circle."""

    next: "Node"


class Deciding:
    """Somebody who decides until ``over``."""

    def __init__(self) -> None:
        self.over = trio.Event()

    async def idle(self) -> None:
        await self.over.wait()


async def test_garbage_is_collected_when_memory_has_grown_and_nobody_decides(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_GROWTH", 1.001)
    gc.collect()
    deciding = Deciding()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.collect_garbage, deciding)
        await trio.sleep(100)
        nodes = [Node() for _ in range(50_000)]
        for one, other in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
            one.next = other
        last, one, other = weakref.ref(nodes[0]), nodes[0], nodes[0]
        gc.collect()  # no young objects any more
        del nodes, one, other
        await trio.sleep(100)
        assert last() is not None
        deciding.over.set()
        await wait_all_tasks_blocked()
        assert last() is None
        nursery.cancel_scope.cancel()
