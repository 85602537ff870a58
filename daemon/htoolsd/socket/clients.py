"""Connected clients: how many there may be, and how much they may send before they get answers."""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import trio

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.config.settings import Settings
from htoolsd.socket.access import Access
from htoolsd.socket.incoming import Incoming
from htoolsd.socket.peer import Peer

_MAX_UNANSWERED = 4  # messages of the greatest length, from all clients of a user together
_FREE_BYTES = 1 << 16  # bytes that a client may send even if others of its user have sent too much


@dataclass(slots=True, eq=False)
class ConnectedClient:
    """A connected client. ``listening`` is the wait for its next call, None while a call is answered."""

    peer: Peer
    incoming: Incoming
    listening: trio.CancelScope | None = None
    since: float = 0.0  # when the wait began

    @property
    def uid(self) -> int:
        """The number of the client's user."""
        return self.peer.credentials.uid


class Clients:
    """All connected clients, within limits."""

    def __init__(self, settings: Settings, access: Access) -> None:
        self._settings = settings
        self._access = access
        self._clients: set[ConnectedClient] = set()
        self._waits = Counter[int]()  # calls that wait for a change, by user

    def __len__(self) -> int:
        return len(self._clients)

    def __contains__(self, client: ConnectedClient) -> bool:
        return client in self._clients

    def enter(self, newcomer: ConnectedClient) -> None:
        """Add a client. If there are too many, the client that has been idle longest is disconnected.

        Raises RefusalError if none is idle; the new client counts nevertheless, until it leaves.
        """
        self._clients.add(newcomer)
        limits, of_user = self._settings.now, self._of_user(newcomer.uid)
        if len(of_user) > limits.connections_per_user:
            user = self._access.roles.describe(newcomer.uid)
            self._disconnect_one(of_user, f"all {limits.connections_per_user} connections of {user}")
        elif len(self._clients) > limits.connections:
            self._disconnect_one(self._clients, f"all {limits.connections} connections")

    def leave(self, client: ConnectedClient) -> None:
        """Remove a client."""
        self._clients.discard(client)

    def check_unanswered(self, client: ConnectedClient) -> None:
        """Raises RefusalError for a client whose user has sent too much that is not answered yet."""
        if client.incoming.held > _FREE_BYTES:
            held = sum(other.incoming.held for other in self._of_user(client.uid))
            most = _MAX_UNANSWERED * (self._settings.now.message_mib << 20)
            if held > most:
                user = self._access.roles.describe(client.uid)
                why = f"{user} has sent more than {most} bytes that are not answered yet"
                raise RefusalError(Refusal.BUSY, why)

    @contextmanager
    def waiting(self, uid: int) -> Iterator[bool]:
        """Count a call of a user that waits for a change; False: it must not wait, since too many do.

        Such calls take half of the connections at most, of each user and in all. So there is room for others.
        """
        waits, limits = self._waits, self._settings.now
        if waits[uid] >= limits.connections_per_user // 2 or waits.total() >= limits.connections // 2:
            yield False
            return
        waits[uid] += 1
        try:
            yield True
        finally:
            waits[uid] -= 1

    def stop_listening(self) -> None:
        """End all waits for a next call."""
        for client in self._clients:
            if client.listening:
                client.listening.cancel()

    def _of_user(self, uid: int) -> list[ConnectedClient]:
        return [client for client in self._clients if client.uid == uid]

    def _disconnect_one(self, clients: Collection[ConnectedClient], description: str) -> None:
        """Raises RefusalError if none of the clients is idle."""
        idle = (client for client in clients if client.listening)
        longest = min(idle, key=lambda client: client.since, default=None)
        if longest is None or longest.listening is None:
            raise RefusalError(Refusal.BUSY, f"{description} are in use")
        self._clients.remove(longest)
        longest.listening.cancel()
