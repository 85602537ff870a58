"""The daemon on the master, as the README says to run it."""

import subprocess
import time
from collections.abc import Callable
from typing import Any, Self

from ganeti_htools.client.asking import NoAnswerError, ask
from ganeti_htools.client.protocol import DEFAULT_SOCKET
from tests.integration import cluster
from tests.support.programs import PATIENCE, PROGRAMS


class Daemon:
    """An htoolsd that knows the cluster, killed at the end of the context; ``config`` is more of its file."""

    def __init__(self, config: str = "config_seconds = 1\nlive_seconds = 20") -> None:
        self.file = cluster.TOP / "htoolsd.toml"
        self.log = cluster.TOP / "htoolsd.log"
        self.file.write_text(f'state_dir = "{cluster.TOP}/htoolsd"\n{config}\n')

    def __enter__(self) -> Self:
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [PROGRAMS / "htoolsd", "--config", self.file],
                env=cluster.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.wait_until(lambda status: status["pid"] == self.process.pid and not status["cluster"]["late"])
        return self

    def __exit__(self, *_exception: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it without giving it time for anything."""
        self.process.kill()
        self.process.wait()

    def status(self) -> Any:
        """What it tells about itself."""
        return ask(DEFAULT_SOCKET, "status", {}, patience=PATIENCE)

    def answers(self) -> bool:
        """Whether anybody does."""
        try:
            self.status()
        except NoAnswerError:
            return False
        return True

    def wait_until(self, condition: Callable[[Any], bool]) -> None:
        """Wait for a status."""
        end = time.monotonic() + PATIENCE
        while not (self.answers() and condition(self.status())):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.status()
            time.sleep(0.05)

    def polls(self) -> int:
        """How often configuration was asked for."""
        return _polls(self.status())

    def wait_for_polls(self, times: int) -> None:
        """Wait until it was asked for that often."""
        self.wait_until(lambda status: _polls(status) >= times)

    def refresh(self) -> None:
        """Have it ask for everything anew."""
        ask(DEFAULT_SOCKET, "refresh", {}, patience=PATIENCE)


def _polls(status: Any) -> int:
    return int(status["cluster"]["polls"]["configuration"]["done"])
