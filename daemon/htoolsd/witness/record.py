"""The record of the witness on disk: counts, times, and each difference with its request.

All functions block. The directory is for the daemon only; the files have mode 0600.
"""

import json
import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from ganeti_htools.files import read_regular_file, write_text
from ganeti_htools.model.errors import DataError
from ganeti_htools.records import JSON, from_bytes
from htoolsd.witness.verdict import ALARMING, WITHOUT_ANSWER

MOST_KEPT = 100  # differences
MOST_KEPT_MIB = 256
ENOUGH = 100  # decisions to compare before one may trust the record
_LARGEST = 16 << 20  # bytes of a file


@dataclass(slots=True)
class Tally:
    """Counts since a time (seconds of the epoch): decisions by type and verdict.

    ``unexplained`` counts those that are alarming and have no known reason. ``ours``, ``theirs`` are the
    latest times of both, in seconds.
    """

    program: str = ""
    since: float | None = None
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    unexplained: int = 0
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    def add(self, kind: str, verdict: str, explained: str | None, times: tuple[float, float | None]) -> None:
        """Count a decision; its times are those of ours and of the other program."""
        of_type = self.counts.setdefault(kind, {})
        of_type[verdict] = of_type.get(verdict, 0) + 1
        self.unexplained += is_alarming(verdict, explained)
        if times[1] is not None:
            self.ours = [*deque([*self.ours, times[0]], 1000)]
            self.theirs = [*deque([*self.theirs, times[1]], 1000)]

    def to_json(self) -> dict[str, Any]:
        """Return the counts, the times, and whether they suffice to switch."""
        compared = sum(
            number
            for each in self.counts.values()
            for verdict, number in each.items()
            if verdict not in WITHOUT_ANSWER
        )
        return {
            "since": self.since,
            "counts": self.counts,
            "compared": compared,
            "enough": ENOUGH,
            "unexplained": self.unexplained,
            "ready": compared >= ENOUGH and not self.unexplained,
            "seconds": {"ours": _times(self.ours), "theirs": _times(self.theirs)},
        }


def is_alarming(verdict: str, explained: str | None) -> bool:
    """Whether somebody should look at a difference before ours answers alone."""
    return verdict in ALARMING and explained is None


def _times(seconds: list[float]) -> dict[str, float] | None:
    return {"median": round(median(seconds), 3), "slowest": round(max(seconds), 3)} if seconds else None


def read_tally(directory: str) -> Tally:
    """Return the counts of earlier daemons. Raises DataError, OSError."""
    tally: Tally = JSON.read(Tally, "record", from_bytes(dict[str, Any], _read(directory, "record.json")))
    return tally


def write(directory: str, tally: Tally, finding: Mapping[str, Any] | None, request: bytes) -> None:
    """Write the counts, and a finding with its request if there is one. Raises OSError, HtoolsError."""
    os.makedirs(directory, 0o700, exist_ok=True)
    if finding is not None:
        name = finding["id"]
        _write_private(f"{directory}/{name}.request", request)
        _write_private(f"{directory}/{name}.json", json.dumps(finding).encode())
        _forget(directory)
    content = {name: getattr(tally, name) for name in Tally.__slots__}
    write_text(f"{directory}/record.json", json.dumps(content))


def findings(directory: str) -> list[dict[str, Any]]:
    """Return the kept differences, the oldest first. Raises OSError."""
    found = []
    for path in _kept(directory):
        with suppress(OSError, DataError):
            found.append(from_bytes(dict[str, Any], read_regular_file(str(path), _LARGEST)))
    return found


def finding(directory: str, name: str) -> dict[str, Any] | None:
    """Return a kept difference with the path of its request; None if there is none. Raises DataError."""
    if not name.isalnum():
        return None
    try:
        found = from_bytes(dict[str, Any], _read(directory, f"{name}.json"))
    except OSError:
        return None
    return {**found, "file": f"{directory}/{name}.request"}


def _read(directory: str, name: str) -> bytes:
    return read_regular_file(f"{directory}/{name}", _LARGEST)


def _write_private(path: str, content: bytes) -> None:
    try:
        with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(content)
    except OSError:
        with suppress(OSError):  # half of it is of no use
            os.unlink(path)
        raise


def _kept(directory: str) -> list[Path]:
    paths = [path for path in Path(directory).glob("*.json") if path.name != "record.json"]
    return sorted(paths, key=lambda path: path.stat().st_mtime)


def _forget(directory: str) -> None:
    """Remove the oldest differences beyond the limits, and requests that a killed daemon left alone."""
    for path in Path(directory).glob("*.request"):
        if not path.with_suffix(".json").exists():
            path.unlink(missing_ok=True)
    paths = _kept(directory)
    sizes = [path.stat().st_size + _size(path.with_suffix(".request")) for path in paths]
    while paths and (len(paths) > MOST_KEPT or sum(sizes) > MOST_KEPT_MIB << 20):
        oldest = paths.pop(0)
        sizes.pop(0)
        for path in (oldest, oldest.with_suffix(".request")):
            path.unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
