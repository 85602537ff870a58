"""Waits for nodes go on when luxid does not answer."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.cli.runs import over_luxi
from ganeti_htools.cli.runs.over_luxi import OverLuxi
from ganeti_htools.commandline.programs import HBAL
from ganeti_htools.commandline.reading import parse_or_exit
from ganeti_htools.luxi.client import LuxiClient
from tests.support.simulated import simulated
from tests.support.worlds import world


@pytest.mark.parametrize("trouble", ["away", "closing", "late"])
@pytest.mark.parametrize(
    "wait",
    [
        lambda luxi: luxi.await_nodes(["one"]),
        lambda luxi: luxi.await_reboot({"one": "before"}),
    ],
)
async def test_wait_goes_on_after_luxid_did_not_answer(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wait: Callable[[OverLuxi], None],
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
        runs = list[Callable[[], Awaitable[None]]]()
        monkeypatch.setattr(trio, "run", runs.append)
        wait(OverLuxi(parse_or_exit(HBAL, ["-L/socket"])))
        await runs[0]()
        assert "Ganeti cannot be asked, still trying" in capsys.readouterr().err
