import trio

from htoolsd.sync.threads import run_by_size


async def test_runs_only_much_work_in_a_thread() -> None:
    def here() -> bool:
        return trio.lowlevel.in_trio_run()

    assert await run_by_size(10, here)
    assert not await run_by_size(10**7, here)
