import trio

from ganeti_htools.luxi.client import Client
from htoolsd.sync.asking import Request, aside
from tests.support.memory_luxid import MemoryLuxid


async def test_the_same_answer_is_read_once() -> None:
    luxid, read = MemoryLuxid(), list[bytes]()

    def note(message: bytes) -> object:
        read.append(message)
        return {"success": True, "result": [len(read)]}

    async def answer(*results: int) -> None:
        connection = await luxid.accept()
        for result in results:
            assert await connection.hear() == b'{"method":"Ask","args":["a"]}\x03'
            await connection.answer(result)

    request = Request("Ask", ["a"], note)
    async with Client("/luxi", luxid.connect) as client, trio.open_nursery() as nursery:
        nursery.start_soon(answer, 5, 5, 6)
        first, second, third = [await request.ask(client, 60) for _ in range(3)]
    assert second is first
    assert third == [2]
    assert len(read) == 2


async def test_much_work_is_done_aside() -> None:
    def here() -> bool:
        return trio.lowlevel.in_trio_run()

    assert await aside(10, here)
    assert not await aside(10**7, here)
