"""How many clients there may be, and how much they may send ahead."""

import pytest
import trio

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.luxi.framing import Decoder
from htoolsd.socket.access import Access
from htoolsd.socket.clients import Clients, ConnectedClient
from htoolsd.socket.incoming import Incoming
from tests.support.memory_peer import MemoryPeer
from tests.support.settings import settings

MIB = 1 << 20
LIMITS = settings(connections=4, connections_per_user=3, message_mib=1)


def client(uid: int, idle_since: float | None = None, held: int = 0) -> ConnectedClient:
    made = ConnectedClient(MemoryPeer(uid=uid), Incoming(Decoder(MIB), held=held))
    if idle_since is not None:
        made.listening, made.since = trio.CancelScope(), idle_since
    return made


def went(one: ConnectedClient) -> bool:
    return one.listening is not None and one.listening.cancel_called


async def test_disconnects_the_longest_idle_client() -> None:
    clients = Clients(LIMITS, Access(LIMITS))
    there = [client(1, 5.0), client(1), client(2, 3.0), client(2, 4.0)]
    for one in there:
        clients.enter(one)
    newcomer = client(3)
    clients.enter(newcomer)
    assert [went(one) for one in there] == [False, False, True, False]
    assert [one in clients for one in (*there, newcomer)] == [True, True, False, True, True]


async def test_disconnects_an_idle_client_of_the_same_user() -> None:
    clients = Clients(LIMITS, Access(LIMITS))
    there = [client(1, 1.0), client(2, 2.0), client(2, 3.0), client(2)]
    for one in [*there, client(2)]:
        clients.enter(one)
    assert [went(one) for one in there] == [False, True, False, False]
    assert len(clients) == 4


@pytest.mark.parametrize(
    ("uids", "problem"),
    [
        ((1, 1, 1, 1), "all 3 connections of user 1 are in use"),
        ((1, 1, 2, 2, 3), "all 4 connections are in use"),
    ],
)
def test_refuses_a_new_client_when_none_is_idle(uids: tuple[int, ...], problem: str) -> None:
    clients = Clients(LIMITS, Access(LIMITS))
    *there, newcomer = (client(uid) for uid in uids)
    for one in there:
        clients.enter(one)
    with pytest.raises(RefusalError, match=problem) as caught:
        clients.enter(newcomer)
    assert caught.value.kind is Refusal.BUSY
    clients.leave(newcomer)
    clients.leave(newcomer)
    assert len(clients) == len(there)


def test_user_who_sends_too_much_does_not_affect_others() -> None:
    clients = Clients(LIMITS, Access(LIMITS))
    first, second, short, other = (
        client(1, held=3 * MIB),
        client(1, held=MIB + 1),
        client(1, held=9),
        client(2),
    )
    for one in (first, second, short, other):
        clients.enter(one)
    other.incoming.held = 4 * MIB
    for one in (first, second):
        with pytest.raises(RefusalError, match="user 1 has sent more than"):
            clients.check_unanswered(one)
    clients.check_unanswered(short)
    clients.check_unanswered(other)
    clients.leave(second)
    clients.check_unanswered(first)


async def test_stop_ends_waits_for_calls() -> None:
    clients = Clients(LIMITS, Access(LIMITS))
    idle, busy = client(1, 1.0), client(1)
    for one in (idle, busy):
        clients.enter(one)
    clients.stop_listening()
    assert went(idle)
    assert len(clients) == 2
