"""The simulator as a process, and what tests say to it."""

import selectors
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ganeti_htools.backends import text
from ganeti_htools.luxi.framing import END, decode, encode
from ganeti_htools.model.cluster import Cluster

PATIENCE = 60.0  # seconds until a test fails for want of an event


@dataclass(frozen=True)
class Simulator:
    """A running simulator, its two sockets and the file it serves."""

    process: subprocess.Popen[str]
    socket: Path
    control: Path
    file: Path

    def ask(self, method: str, *args: Any) -> Any:
        """What LUXI answers."""
        return ask(self.socket, method, *args)

    def tell(self, method: str, *args: Any) -> Any:
        """Give an order."""
        return ask(self.control, method, *args)

    def finish(self) -> None:
        """The jobs under way end, and those to come take no time."""
        self.tell("job_seconds", 0)
        self.tell("finish")

    def cluster(self) -> str:
        """The cluster as it is now, in the text format."""
        return str(self.tell("cluster"))


@contextmanager
def simulator(directory: Path, cluster: Cluster, *options: object) -> Iterator[Simulator]:
    """A simulator of a cluster, ready to be asked."""
    file, luxi, control = directory / "served.data", directory / "luxi", directory / "control"
    file.write_text(text.dump(cluster))
    program = (sys.executable, "-m", "ganeti_htools.simulator.program")
    sockets = ("--socket", luxi, "--control", control)
    process = subprocess.Popen(
        [str(word) for word in (*program, file, *sockets, *options)], stdout=subprocess.PIPE, text=True
    )
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
    """The result of a call. Fails for what is no success."""
    answer = raw(path, encode({"method": method, "args": args}))
    assert answer.endswith(END)
    message = decode(answer.removesuffix(END))
    assert isinstance(message, dict)
    assert message["success"], message["result"]
    return message["result"]


def raw(path: Path, data: bytes) -> bytes:
    """What comes back until the end of an answer, or of the conversation."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(str(path))
        sock.sendall(data)
        return until_end(sock)


def until_end(sock: socket.socket) -> bytes:
    """What comes until the end of a message, or of the conversation."""
    received = b""
    while not received.endswith(END) and (more := sock.recv(1 << 20)):
        received += more
    return received
