"""The daemon on the master, as the README says to run it."""

import subprocess
from typing import Any, Self

from htoolsd.client import NoAnswerError, ask
from htoolsd.config import DEFAULT_SOCKET
from tests.daemon.programs import PATIENCE, PROGRAMS, wait_until
from tests.integration import cluster


class Daemon:
    """A running htoolsd, ended at the end of the context."""

    def __init__(self) -> None:
        self.config = cluster.TOP / "htoolsd.toml"
        self.log = cluster.TOP / "htoolsd.log"

    def __enter__(self) -> Self:
        self.config.write_text(f'luxi = "{cluster.luxi()}"\nstate_dir = "{cluster.TOP}/htoolsd"\n')
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [PROGRAMS / "htoolsd", "--config", self.config],
                env=cluster.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(lambda: self.process.poll() is not None or self.answers())
        assert self.process.poll() is None, self.log.read_text()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.process.kill()
        self.process.wait()

    def answers(self) -> bool:
        """Whether somebody does."""
        try:
            self.status()
        except NoAnswerError:
            return False
        return True

    def status(self) -> Any:
        """What it tells about itself."""
        return ask(DEFAULT_SOCKET, "status", {}, patience=PATIENCE)
