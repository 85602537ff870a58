"""The simulator as a process, and orders of tests."""

import selectors
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ganeti_htools.backends import text
from ganeti_htools.luxi.framing import END, decode, encode
from ganeti_htools.model.cluster import Cluster
from tests.support import preloaded

PATIENCE = 60.0  # seconds until a test fails for want of an event


@dataclass(frozen=True)
class Simulator:
    """A running simulator, its two sockets and the served file."""

    process: preloaded.Process
    socket: Path
    control: Path
    file: Path

    def ask(self, method: str, *args: Any) -> Any:
        """Return the result of a LUXI request."""
        return ask(self.socket, method, *args)

    def tell(self, method: str, *args: Any) -> Any:
        """Give an order."""
        return ask(self.control, method, *args)

    def finish(self) -> None:
        """End the running jobs, and let later jobs take no time."""
        self.tell("job_seconds", 0)
        self.tell("finish")

    def cluster(self) -> str:
        """Return the present cluster in the text format."""
        return str(self.tell("cluster"))

    def rows(self) -> Cluster:
        """Return the present cluster."""
        return text.parse(self.cluster(), "simulator")


@contextmanager
def simulator(directory: Path, cluster: Cluster, *options: object) -> Iterator[Simulator]:
    """Run a simulator of a cluster, and wait until it serves."""
    file, luxi, control = directory / "served.data", directory / "luxi", directory / "control"
    file.write_text(text.dump(cluster))
    sockets = ("--socket", luxi, "--control", control)
    process = preloaded.start("htools-simulator", (file, *sockets, *options))
    try:
        assert process.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            assert ready.select(PATIENCE)
        assert process.stdout.readline() == f"htools-simulator: serving on {luxi}\n"
        yield Simulator(process, luxi, control, file)
    finally:
        process.kill()
        process.communicate()


def ask(path: Path, method: str, *args: Any) -> Any:
    """Return the result of a call; fail if it was not successful."""
    answer = raw(path, encode({"method": method, "args": args}))
    assert answer.endswith(END)
    message = decode(answer.removesuffix(END))
    assert isinstance(message, dict)
    assert message["success"], message["result"]
    return message["result"]


def raw(path: Path, data: bytes) -> bytes:
    """Send a message; return the bytes up to the end of the answer or of the connection."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(str(path))
        sock.sendall(data)
        return until_end(sock)


def until_end(sock: socket.socket) -> bytes:
    """Return the bytes up to the end of a message or of the connection."""
    received = b""
    while not received.endswith(END) and (more := sock.recv(1 << 20)):
        received += more
    return received
