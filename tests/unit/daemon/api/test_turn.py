import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.api.turn import DecisionTurn
from tests.support.settings import settings


async def test_waiting_is_limited_and_running_is_not(autojump_clock: MockClock) -> None:
    turn = DecisionTurn(settings(wait_seconds=5.0))
    await turn.acquire_on_behalf_of("slow")
    assert turn.running_since == trio.current_time()
    with pytest.raises(RefusalError, match="no turn within 5 s") as caught:
        await turn.acquire_on_behalf_of("patient")
    assert caught.value.kind is Refusal.BUSY
    assert trio.current_time() == pytest.approx(5)
    assert turn.waiting == 0
    turn.release_on_behalf_of("slow")
    assert turn.running_since is None
    await turn.acquire_on_behalf_of("next")
    assert turn.running_since == trio.current_time()
