"""The record of the witness on disk: counts, times, and each difference with its request.

All functions block. The directory is for the daemon only; the files have mode 0600.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ganeti_htools.files import read_regular_file, write_text
from ganeti_htools.model.errors import DataError
from ganeti_htools.records import JSON, from_bytes
from ganeti_htools.witness.tally import Tally

MOST_KEPT = 100  # differences
MOST_KEPT_MIB = 256
_LARGEST = 16 << 20  # bytes of a file


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
