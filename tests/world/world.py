"""The world: one run of trio with the daemons and their surroundings, where all chance comes from a seed.

Its clock jumps to the next moment at which something happens. The order of tasks is trio's, from the seed.
Sockets are real ones within the process, SQLite is the real one. :mod:`.machine` has what replaces clock,
chance, threads and processes; :mod:`.host` the nodes on which daemons run.
"""

import os
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from zlib import crc32

import orjson
import trio
from trio._core import _run
from trio.testing import MockClock

if TYPE_CHECKING:
    from tests.world.host import Host

ZONE = "Europe/Berlin"
DAY = 86400.0
_NEAR = 0.5  # seconds
# A day before a change of the clocks, or somewhere between.
_STARTS = [datetime(2026, *day, tzinfo=UTC).timestamp() for day in ((3, 28), (10, 24), (6, 1), (1, 1))]


def _jump(clock: MockClock) -> None:
    """Jump to the next deadline; to a whole second if it is not near, so that tasks wake up together."""
    now, deadline = clock.current_time(), _run.GLOBAL_RUN_CONTEXT.runner.deadlines.next_deadline()
    if deadline < inf:
        clock.jump(max(0.0, (deadline if deadline < now + _NEAR else ceil(deadline)) - now))


class World:
    """Everything around the daemons. ``wall`` is what is added to the clock when it is set."""

    def __init__(
        self, seed: int, directory: Path, record: BinaryIO, settings: Mapping[str, float], clock: MockClock
    ) -> None:
        self.seed, self.directory, self.clock = seed, directory, clock
        self.nursery: trio.Nursery
        self.wall = 0.0
        self.hosts: dict[str, Host] = {}
        self.ganeti: Any = None
        self.digest = sha256()
        self._record, self._settings = record, settings
        self._chances: dict[str, random.Random] = {}
        self._here = os.fsencode(directory)
        self.start = self.chance("start").choice(_STARTS)
        self._begin = 0.0

    def begin(self, nursery: trio.Nursery) -> None:
        """Begin with time 0 in this nursery. The event loop's clock is somewhere else."""
        self.nursery = nursery
        self.clock.jump(self.chance("start").uniform(1e4, 2e5))
        self._begin = trio.current_time()

    def chance(self, name: str) -> random.Random:
        """Return the chances of this name, which do not depend on other names."""
        if name not in self._chances:
            self._chances[name] = random.Random(self.seed << 32 | crc32(name.encode()))
        return self._chances[name]

    def setting(self, name: str, default: float) -> float:
        """Return how much there is of something; a replay may have set it."""
        return self._settings.get(name, default)

    def now(self) -> float:
        """Return the time in seconds of the epoch, which may jump."""
        return self.start + self.wall + self.steady()

    def steady(self) -> float:
        """Return the seconds since the beginning."""
        return trio.current_time() - self._begin

    def record(self, what: str, **fields: Any) -> None:
        """Append one line to the record."""
        entry = {"t": round(self.steady(), 6), "what": what, **fields}
        line = orjson.dumps(entry, default=str, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS)
        line = line.replace(self._here, b"/w") + b"\n"
        self.digest.update(line)
        self._record.write(line)

    async def host(self, name: str) -> "Host":
        """Add a node on which a daemon may run."""
        from tests.world.host import Host

        self.hosts[name] = Host(self, name)
        return self.hosts[name]


@contextmanager
def determined(seed: int) -> Iterator[MockClock]:
    """Let trio order tasks by the seed within the block. Returns its clock."""
    before = _run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r, os.environ.get("TZ")
    _run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    _run._r = random.Random(seed)
    os.environ["TZ"] = ZONE
    time.tzset()
    try:
        clock = MockClock(autojump_threshold=0)
        clock._real_clock, clock._autojump = float, partial(_jump, clock)  # type: ignore[method-assign]
        yield clock
    finally:
        _run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r, zone = before  # type: ignore[misc]
        os.environ.pop("TZ")
        if zone is not None:
            os.environ["TZ"] = zone
        time.tzset()
