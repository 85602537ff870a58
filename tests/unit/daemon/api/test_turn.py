import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.api.turn import DecisionTurn
from tests.support.settings import settings


async def test_waiting_is_limited_and_running_is_not(autojump_clock: MockClock) -> None:
    turn = DecisionTurn(settings(wait_seconds=5.0))
    async with turn.taken():
        with pytest.raises(RefusalError, match="no turn within 5 s") as caught:
            async with turn.taken():
                pass
        assert caught.value.kind is Refusal.BUSY
        assert trio.current_time() == pytest.approx(5)
        assert (turn.waiting, turn.running is None) == (0, False)
    assert turn.running is None
    async with turn.taken():
        assert turn.running is not None
        assert turn.running.since == trio.current_time()
