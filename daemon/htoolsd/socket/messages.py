"""Calls as they arrive, and their answers; :mod:`ganeti_htools.client.protocol` has the protocol."""

from ganeti_htools.backends.documents import DocumentError, has_at_most, parse_document
from ganeti_htools.backends.fields import excerpt
from ganeti_htools.client.protocol import VERSION, Call, Refusal, RefusalError
from ganeti_htools.luxi.framing import encode

_MOST = 10_000  # values in a call


def decode_call(message: bytes) -> Call:
    """Decode a call. Raises RefusalError."""
    if not has_at_most(message, _MOST):
        raise RefusalError(Refusal.MESSAGE, f"message has more than {_MOST} values")
    try:
        value = parse_document(message)
    except DocumentError as err:
        raise RefusalError(Refusal.MESSAGE, f"message is not JSON: {err}") from None
    if not isinstance(value, dict):
        raise RefusalError(Refusal.MESSAGE, "expected an object with method, args and version")
    version = value.get("version")
    if version != VERSION or isinstance(version, bool):
        why = ""
        if type(version) is int:
            why = "; the daemon is older" if version > VERSION else "; the client is older"
        raise RefusalError(Refusal.VERSION, f"version: expected {VERSION}, got {excerpt(version)}{why}")
    match value:
        case {"method": str(method), "args": dict(args)}:
            return Call(method, args)
    raise RefusalError(Refusal.MESSAGE, "expected method to be a string and args an object")


def success(result: object) -> bytes:
    """Encode the answer to a call that was carried out."""
    return encode({"success": True, "result": result})


def failure(kind: Refusal, message: str) -> bytes:
    """Encode the answer to a refused call."""
    return encode({"success": False, "result": {"error": kind, "message": message}})
