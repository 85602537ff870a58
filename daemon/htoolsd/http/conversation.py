"""One request of a client and its answer: HTTP by h11 on a trio stream."""

from collections.abc import Awaitable, Callable
from email.utils import formatdate
from http import HTTPStatus

import h11
import trio

from htoolsd.http.requests import Answer, Request
from htoolsd.socket.peer import SocketPeer

_HEAD = 1 << 14  # bytes of a request's head
_CHUNK = 1 << 12
_LINGER = 1.0  # seconds that an answered client gets to close; without that it may lose the answer


async def converse(
    peer: SocketPeer,
    read_seconds: float,
    write_seconds: float,
    answer: Callable[[Request], Awaitable[Answer]],
) -> None:
    """Answer one request; the connection is to be closed afterwards. Raises OSError, RefusalError.

    A client that sends no whole request in time is told so, like one that sends no HTTP.
    """
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD)
    head = False
    try:
        with trio.fail_after(read_seconds):
            request = await _receive(connection, peer)
        if request is None:
            return
        head = request.method == "HEAD"
        found = await answer(request)
    except h11.RemoteProtocolError as error:
        found = Answer(error.error_status_hint, f"{error}\n")
    except trio.TooSlowError:
        found = Answer(408, f"no request within {read_seconds:g} s\n")
    with trio.move_on_after(write_seconds):
        await peer.send(_encode(connection, found, head))
        peer.end()
        with trio.move_on_after(_LINGER):
            while await _read(peer):
                pass


async def _read(peer: SocketPeer) -> bytes:
    """Return the next bytes, empty at the end. Raises OSError, RefusalError."""
    data, files = await peer.receive(_CHUNK)
    for file in files:
        file.close()
    return data


async def _receive(connection: h11.Connection, peer: SocketPeer) -> Request | None:
    """Return the next request, None if the client has left. Raises RemoteProtocolError."""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
            return Request(event.method.decode("latin-1"), event.target.decode("latin-1"), headers)
        if event is not h11.NEED_DATA:
            return None
        connection.receive_data(await _read(peer))


def _encode(connection: h11.Connection, answer: Answer, head: bool) -> bytes:
    body = answer.text.encode()
    headers = {
        "Date": formatdate(usegmt=True),
        "Content-Type": answer.content_type,
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
        **answer.headers,
    }
    reason = HTTPStatus(answer.status).phrase.encode()
    events: list[h11.Event] = [
        h11.Response(status_code=answer.status, reason=reason, headers=list(headers.items())),
        *([] if head else [h11.Data(body)]),
        h11.EndOfMessage(),
    ]
    return b"".join(connection.send(event) or b"" for event in events)
