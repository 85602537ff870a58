"""Many clients at once, while the daemon is killed again and again.

Each client runs the executable again as soon as it has an answer, so there are always as many as there are
clients. The daemon is killed at even intervals and started again at once, as a service manager would do it.
Every answer is compared with that of the one-shot program.
"""

import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

from bench.timing import BIN, SEED, TOP, Limit, duration, pace, progress, verdict
from tests.support.clusters import Shape, cluster
from tests.support.messages import allocate, encode, message

EXECUTABLE = TOP / "iallocator/htoolsd"
ALONE = b"deciding without the daemon"
START_PATIENCE = 20.0


@dataclass(frozen=True)
class Row:
    """One line of the table, and what it has to reach: seconds, and a share of the answers."""

    work: str
    seconds: float
    kills: int = 0
    median: float = 1.5
    slowest: float = 15
    by_daemon: float = 0.7
    clients: int = 50
    nodes: int = 40


ROWS = [Row("overload, 30 s", 30, by_daemon=1, slowest=5)]
FULL_ROWS = [Row("overload, 180 s, daemon killed 20 times", 180, kills=20)]


class Answer(NamedTuple):
    """How long one took, whether the daemon decided it, and whether it is what it has to be."""

    seconds: float
    by_daemon: bool
    right: bool


def requests(directory: Path, nodes: int) -> list[tuple[Path, bytes]]:
    """Some requests, and their answers."""
    data = cluster(SEED, Shape(nodes=nodes, instances=10 * nodes))
    written = []
    for number in range(8):
        path = directory / f"request{number}"
        request = allocate(f"new{number}.example.org", memory=1024 << number % 4)
        path.write_text(encode(message(data, request)))
        ended = subprocess.run([BIN / "hail", path], stdout=subprocess.PIPE, check=True)
        written.append((path, ended.stdout))
    return written


class Daemon:
    """A daemon that can be killed and comes back."""

    def __init__(self, directory: Path) -> None:
        self.socket = directory / "socket"
        self._directory = directory
        self._start()

    def _start(self) -> None:
        place: list[str | Path] = ["--socket", self.socket, "--state-dir", self._directory]
        with (self._directory / "log").open("a") as log:
            self._process = subprocess.Popen(
                [BIN / "htoolsd", *place, "--luxi", "/nonexistent"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """The end of it."""
        self._process.kill()
        self._process.wait()

    def kill_and_start(self) -> None:
        """What the kernel and the service manager do when there is no memory."""
        self.kill()
        self._start()


@contextmanager
def running(directory: Path) -> Iterator[Daemon]:
    """A daemon, once it listens."""
    daemon = Daemon(directory)
    try:
        give_up = time.monotonic() + START_PATIENCE
        while not daemon.socket.exists():
            if time.monotonic() > give_up:
                raise SystemExit("bench: htoolsd does not start:\n" + (directory / "log").read_text())
            time.sleep(0.02)
        yield daemon
    finally:
        daemon.kill()


def measure(row: Row) -> list[Answer]:
    """Run a row."""
    answers: list[Answer] = []
    with tempfile.TemporaryDirectory(prefix="htoolsd-bench-") as name:
        directory = Path(name)
        known = requests(directory, row.nodes)
        with running(directory) as daemon, ThreadPoolExecutor(row.clients) as threads:
            environment = {"HTOOLSD_SOCKET": str(daemon.socket), "HTOOLSD_HAIL": str(BIN / "hail")}
            end = time.monotonic() + row.seconds

            def client(number: int) -> None:
                for turn in count(number):
                    start = time.monotonic()
                    if start >= end:
                        return
                    path, expected = known[turn % len(known)]
                    ended = subprocess.run([EXECUTABLE, path], env=environment, capture_output=True)
                    took = time.monotonic() - start
                    answers.append(Answer(took, ALONE not in ended.stderr, ended.stdout == expected))

            clients = [threads.submit(client, number) for number in range(row.clients)]
            over = threading.Event()
            for killed in range(row.kills):
                progress(f"{row.work}: killed {killed} times, {len(answers)} answers")
                over.wait(max(0.0, end - time.monotonic()) / (row.kills + 1 - killed))
                daemon.kill_and_start()
            for done in clients:
                done.result()
    progress("")
    return answers


def cells(row: Row) -> list[str]:
    """Measure a row; return its cells."""
    slower = pace()
    middle, longest = Limit(row.median, slower), Limit(row.slowest, slower)
    answers = measure(row)
    times = [answer.seconds for answer in answers]
    median, slowest = statistics.median(times), max(times)
    alone = sum(not answer.by_daemon for answer in answers)
    by_daemon = 1 - alone / len(answers)
    wrong = sum(not answer.right for answer in answers)
    return [
        row.work,
        str(row.clients),
        str(len(answers)),
        f"{wrong} ({verdict(not wrong)})",
        f"{duration(median)} (at most {': '.join(middle.cells(median))})",
        f"{duration(slowest)} (at most {': '.join(longest.cells(slowest))})",
        f"{by_daemon:.1%} (at least {row.by_daemon:.0%}: {verdict(by_daemon >= row.by_daemon)})",
    ]


TITLE = """Clients that all ask at once, again and again, for a DRBD allocate: whole processes of
iallocator/htoolsd. Wrong: other answers than those of the one-shot hail."""
HEADER = ["work", "clients", "answers", "wrong", "median", "slowest", "by the daemon"]
NOTES: dict[str, str] = {}


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Measure; the table."""
    return [HEADER, *(cells(row) for row in rows)]
