import trio

from htoolsd.sync.threads import run_by_size


async def test_much_work_is_done_run_by_size() -> None:
    def here() -> bool:
        return trio.lowlevel.in_trio_run()

    assert await run_by_size(10, here)
    assert not await run_by_size(10**7, here)
