"""A disk and a clock of one program, which a test fills and sets."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.programs import ROOT


class Disk:
    """A small disk at a directory. Only programs that begin with ``prefix`` see it."""

    def __init__(self, directory: Path, pid: int) -> None:
        self.prefix = ("nsenter", f"--mount=/proc/{pid}/ns/mnt", "setpriv", "--pdeathsig=KILL")
        self._root = Path(f"/proc/{pid}/root{directory}")

    @contextmanager
    def full(self) -> Iterator[None]:
        """Leave no room on the disk within the block."""
        ballast = self._root / "ballast"
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(1 << 20)):
                pass
        try:
            yield
        finally:
            ballast.unlink()


@contextmanager
def small_disk(directory: Path, mib: int) -> Iterator[Disk | None]:
    """Put an empty disk at the directory within the block; None where that is not permitted."""
    mount = f"mount -t tmpfs -o size={mib}m tmpfs {directory} && echo mounted && exec sleep infinity"
    command = ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "sh", "-c", mount]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield Disk(directory, process.pid) if process.stdout.readline() else None
        finally:
            process.kill()


class Clock:
    """The clock of programs with this ``environment``: that of the machine, moved by libfaketime."""

    def __init__(self, directory: Path, library: Path) -> None:
        self._offset = directory / "clock"
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # with it, waits for the interpreter lock take far too long
        }
        self.move(0)

    def move(self, seconds: int) -> None:
        """Let the clock be so many seconds ahead of the machine's."""
        new = self._offset.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.rename(self._offset)


def movable_clock(directory: Path) -> Clock | None:
    """Return a clock whose file is in the directory; None without Debian's libfaketime."""
    places = Path("/"), ROOT / ".cache/tools"
    found = [path for place in places for path in place.glob("usr/lib/*/faketime/libfaketimeMT.so.1")]
    return Clock(directory, found[0]) if found else None
