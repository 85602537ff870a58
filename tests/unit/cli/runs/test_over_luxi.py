"""Waits for nodes go on when luxid does not answer."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.cli.runs import over_luxi
from ganeti_htools.luxi.client import LuxiClient
from tests.support.simulated import simulated
from tests.support.worlds import world


@pytest.mark.parametrize("trouble", ["away", "closing", "late"])
@pytest.mark.parametrize(
    "wait",
    [
        lambda: over_luxi._await_nodes("/socket", ["one"]),
        lambda: over_luxi._await_reboot("/socket", {"one": "before"}),
    ],
)
async def test_wait_goes_on_after_luxid_did_not_answer(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wait: Callable[[], Awaitable[None]],
    trouble: str,
) -> None:
    async with simulated(world()) as (master, _):
        answers = master.answer

        async def away(path: str) -> trio.abc.Stream:
            raise FileNotFoundError(path)

        async def no_answer(message: bytes) -> tuple[bytes, bool]:
            master.answer = answers
            await trio.sleep(1000 if trouble == "late" else 0)
            raise trio.BrokenResourceError

        connects = iter([away] if trouble == "away" else [])

        async def connect(path: str) -> trio.abc.Stream:
            return await next(connects, master.connect)(path)

        if trouble != "away":
            master.answer = no_answer
        monkeypatch.setattr(over_luxi, "LuxiClient", lambda path: LuxiClient(path, connect))
        await wait()
        assert "Ganeti cannot be asked, still trying" in capsys.readouterr().err
