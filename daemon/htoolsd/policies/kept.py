"""What policies remember, and the file of the state directory in which it is."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson
import structlog
import trio

from ganeti_htools.files import write_text
from ganeti_htools.model.errors import HtoolsError
from htoolsd import reading
from htoolsd.policies.memory import Memory, restored
from htoolsd.policies.settings import Settings

_log = structlog.get_logger()

_VERSION = 1
_LARGEST = 64 << 20  # bytes


@dataclass(slots=True)
class Remembered:
    """What policies (by name) remember, when instances have moved, and nodes were powered or came back."""

    memories: dict[str, Memory] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)
    switched: dict[str, float] = field(default_factory=dict)

    def forget(self, before: float) -> None:
        """Forget what moved, and nodes that were powered or came back, before a time."""
        self.moved = _since(self.moved, before)
        self.switched = _since(self.switched, before)

    def not_after(self, now: float, settings: Mapping[str, Settings]) -> None:
        """Take what was later than now for what is now: the clock was wrong then."""
        self.moved = {name: min(when, now) for name, when in self.moved.items()}
        self.switched = {name: min(when, now) for name, when in self.switched.items()}
        for name, memory in self.memories.items():
            memory.not_after(now, settings[name])


def _since(times: Mapping[str, float], before: float) -> dict[str, float]:
    return {name: when for name, when in times.items() if when > before}


def text(known: Remembered) -> str:
    """The content of the file."""
    told = {name: memory.document() for name, memory in known.memories.items()}
    document = {"version": _VERSION, "policies": told, "moved": known.moved, "switched": known.switched}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def read(path: str) -> Remembered:
    """What was written; nothing where there is no file. One that is damaged is set aside. Raises HtoolsError
    for one that cannot be read, or is of a newer htoolsd.
    """
    try:
        written = reading.whole(path, _LARGEST)
    except FileNotFoundError:
        return Remembered()
    except OSError as error:
        raise HtoolsError(f"{path}: {error.strerror}") from None
    try:
        document = orjson.loads(written)
        if document["version"] > _VERSION:
            raise HtoolsError(f"{path} was written by a newer htoolsd")
        return Remembered(
            {str(name): restored(each) for name, each in document["policies"].items()},
            {str(name): float(when) for name, when in document["moved"].items()},
            {str(name): float(when) for name, when in document["switched"].items()},
        )
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        aside = f"{path}.damaged-{time.strftime('%Y%m%dT%H%M%S')}"
        _log.error("what policies have spent is damaged and begun anew", error=str(error), kept=aside)
        try:
            os.replace(path, aside)
        except OSError as unmovable:
            raise HtoolsError(f"{path}: {unmovable.strerror}") from None
        return Remembered()


class Kept:
    """What is remembered, kept in a file. While that is ``unreadable`` (why), nothing is written."""

    def __init__(self, path: str, names: Mapping[str, object]) -> None:
        self._path = path
        self.known = Remembered({name: Memory() for name in names})
        self.unreadable: str | None = None
        self.unsaved = False
        self._turn = trio.Lock()

    async def recall(self) -> None:
        """Read what earlier daemons have written."""
        try:
            found = await trio.to_thread.run_sync(read, self._path)
        except HtoolsError as error:
            self.unreadable = str(error)
            _log.error("policies hold back", error=self.unreadable)
            return
        known = {name: memory for name, memory in found.memories.items() if name in self.known.memories}
        self.known = Remembered(self.known.memories | known, found.moved, found.switched)

    async def save(self) -> None:
        """Raises HtoolsError."""
        async with self._turn:
            self.unsaved = False
            try:
                await trio.to_thread.run_sync(write_text, self._path, text(self.known))
            except BaseException:  # cancelled among them
                self.unsaved = True
                raise

    async def save_if_possible(self) -> None:
        """Save what has changed; if that fails, it is only logged."""
        if not self.unsaved or self.unreadable is not None:
            return
        try:
            await self.save()
        except HtoolsError as error:
            _log.error("what policies have spent is not recorded", error=str(error))
