"""The webhook of notifications: events posted over HTTP. Imported only where an address is configured."""

import ssl
from typing import Self
from urllib.parse import urlsplit

import httpx
import trio

from ganeti_htools.model.errors import on_one_line
from htoolsd.notify.deliver import Delivery
from htoolsd.threads import effect


async def post(url: str, message: bytes, patience: float) -> Delivery:
    """Post a message, JSON. Any status from 200 to 299 is a success; redirections are not followed.

    Errors name the host only, since the rest of an address may be a secret.
    """
    host = urlsplit(url).hostname
    try:
        # httpx gives up by itself and closes its connection; the rest is for a server that sends bit by bit.
        with trio.move_on_after(2 * patience):
            # The certificates of the system, so that an administrator can add one.
            context = await effect(ssl.create_default_context)
            async with httpx.AsyncClient(verify=context, timeout=patience, follow_redirects=False) as client:
                headers = {"Content-Type": "application/json"}
                request = client.build_request("POST", url, content=message, headers=headers)
                request.stream = _Body(message)
                response = await client.send(request, stream=True)
                status = response.status_code
                await response.aclose()
            if response.is_success:
                return Delivery(status)
            return Delivery(status, error=f"{host}: HTTP status {status} {response.reason_phrase}".strip())
    except httpx.TimeoutException:
        pass
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return Delivery(error=on_one_line(f"{host}: {_reason(error)}"))
    return Delivery(error=f"{host}: no answer within {patience:g} s")


class _Body(httpx.AsyncByteStream):
    """A body of one part. That of httpx leaves a generator behind when it cannot be sent."""

    def __init__(self, content: bytes) -> None:
        self._parts = [content]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._parts:
            raise StopAsyncIteration
        return self._parts.pop()


def _reason(error: BaseException) -> str:
    """Return the reason of an error, taken from its cause if the error has none."""
    cause: BaseException | None = error
    while cause is not None:
        if text := getattr(cause, "strerror", None) or str(cause):
            return str(text)
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__
