"""The clients that are connected: how many there may be, and how much they may send ahead of answers."""

from collections.abc import Collection
from dataclasses import dataclass

import trio

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.socket.incoming import Incoming
from htoolsd.socket.peer import Peer

_AHEAD = 4  # messages of the greatest length that all clients of one user may have sent without an answer yet
_LITTLE = 1 << 16  # bytes; who sends no more is heard even if others of the same user have sent too much


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for one client and for all: a number of clients, bytes of a message, seconds."""

    connections: int
    per_user: int
    message: int
    idle: float
    write: float


@dataclass(slots=True, eq=False)
class Client:
    """A connected client. While its next call is waited for, the wait is ``listening``."""

    peer: Peer
    incoming: Incoming
    listening: trio.CancelScope | None = None
    since: float = 0.0  # when the wait began

    @property
    def uid(self) -> int:
        """The number of its user."""
        return self.peer.credentials.uid


class Clients:
    """All clients that are connected, within ``limits``."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._clients: set[Client] = set()

    def __len__(self) -> int:
        return len(self._clients)

    def __contains__(self, client: Client) -> bool:
        return client in self._clients

    def enter(self, newcomer: Client) -> None:
        """Count one more. If there are too many, the one that has been idle longest has to go.

        Raises RefusalError if none is idle; the newcomer counts nevertheless, until it leaves.
        """
        self._clients.add(newcomer)
        limits, of_user = self.limits, self._of_user(newcomer.uid)
        if len(of_user) > limits.per_user:
            self._send_one_away(of_user, f"all {limits.per_user} connections of user {newcomer.uid}")
        elif len(self._clients) > limits.connections:
            self._send_one_away(self._clients, f"all {limits.connections} connections")

    def leave(self, client: Client) -> None:
        """Do not count it any more."""
        self._clients.discard(client)

    def bound(self, client: Client) -> None:
        """Raises RefusalError for a client whose user has sent too much that is not answered yet."""
        if client.incoming.held > _LITTLE:
            held = sum(other.incoming.held for other in self._of_user(client.uid))
            if held > _AHEAD * self.limits.message:
                raise RefusalError(Refusal.BUSY, f"user {client.uid} sends too much at the same time")

    def stop_listening(self) -> None:
        """End all waits for a next call."""
        for client in self._clients:
            if client.listening:
                client.listening.cancel()

    def _of_user(self, uid: int) -> list[Client]:
        return [client for client in self._clients if client.uid == uid]

    def _send_one_away(self, crowd: Collection[Client], all_of_them: str) -> None:
        """Raises RefusalError if nobody of the crowd is idle."""
        idle = (client for client in crowd if client.listening)
        longest = min(idle, key=lambda client: client.since, default=None)
        if longest is None or longest.listening is None:
            raise RefusalError(Refusal.BUSY, f"{all_of_them} are in use")
        self._clients.remove(longest)
        longest.listening.cancel()
