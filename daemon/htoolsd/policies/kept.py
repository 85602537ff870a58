"""What policies remember, in a file of the state directory."""

import os
import time
from collections.abc import Mapping

import orjson
import structlog

from ganeti_htools.model.errors import HtoolsError
from htoolsd import reading
from htoolsd.policies.memory import Memory, restored

_log = structlog.get_logger()

_VERSION = 1
_LARGEST = 64 << 20  # bytes


def text(memories: Mapping[str, Memory], moved: Mapping[str, float]) -> str:
    """The content of the file: what policies (by name) remember, and when instances have moved."""
    told = {name: memory.document() for name, memory in memories.items()}
    document = {"version": _VERSION, "policies": told, "moved": dict(moved)}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def read(path: str) -> tuple[dict[str, Memory], dict[str, float]]:
    """What was written; nothing where there is no file. One that is damaged is set aside. Raises HtoolsError
    for one that cannot be read, or is of a newer htoolsd.
    """
    try:
        written = reading.whole(path, _LARGEST)
    except FileNotFoundError:
        return {}, {}
    except OSError as error:
        raise HtoolsError(f"{path}: {error.strerror}") from None
    try:
        document = orjson.loads(written)
        if document["version"] > _VERSION:
            raise HtoolsError(f"{path} was written by a newer htoolsd")
        memories = {str(name): restored(each) for name, each in document["policies"].items()}
        moved = {str(name): float(when) for name, when in document["moved"].items()}
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        aside = f"{path}.damaged-{time.strftime('%Y%m%dT%H%M%S')}"
        _log.error("what policies have spent is damaged and begun anew", error=str(error), kept=aside)
        try:
            os.replace(path, aside)
        except OSError as unmovable:
            raise HtoolsError(f"{path}: {unmovable.strerror}") from None
        return {}, {}
    return memories, moved
