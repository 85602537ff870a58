"""The daemon on a node, started as the systemd unit does."""

import difflib
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from ganeti_htools.backends import text
from ganeti_htools.client.calls import NoReplyError, ask
from ganeti_htools.sources.source import Source, read
from tests.integration import cluster
from tests.support.programs import PATIENCE, PROGRAMS

_AGAIN = 5.0  # seconds until Ganeti's figures are read again


class Daemon:
    """An htoolsd that knows its role, and as the master's the cluster; killed at the end of the context.

    ``config`` is more of its file.
    """

    def __init__(
        self, config: str = "config_seconds = 1\nlive_seconds = 20", node: str = cluster.MASTER
    ) -> None:
        self.node = node
        self.socket = str(cluster.socket_of(node))
        self.file = cluster.TOP / node / "htoolsd.toml"
        self.log = cluster.TOP / node / "htoolsd.log"
        self.file.write_text(
            f'socket = "{self.socket}"\nstate_dir = "{cluster.TOP}/{node}/htoolsd"\n{config}\n'
        )

    def __enter__(self) -> Self:
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [PROGRAMS / "htoolsd", "--config", self.file, "--stay"],
                env=cluster.environment(self.node),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.wait_until(lambda status: _leads(status) or _idle(status))
        return self

    def __exit__(self, *_exception: object) -> None:
        broken = self.status()["decisions"]["broken"] if self.answers() else 0
        self.kill()
        assert not broken, self.log.read_text()

    def kill(self) -> None:
        """End it without giving it time for anything."""
        self.process.kill()
        self.process.wait()

    def status(self) -> Any:
        """What it tells about itself."""
        return self.ask("status")

    def ask(self, method: str, **args: object) -> Any:
        """Call one of its methods."""
        return ask(self.socket, method, args, patience=PATIENCE)

    def going(self) -> bool:
        """Whether jobs of plans are under way as far as it knows, also of plans that were interrupted."""
        return any(plan["jobs"]["going"] for plan in self.ask("plans"))

    def answers(self) -> bool:
        """Whether anybody does."""
        try:
            self.status()
        except NoReplyError:
            return False
        return True

    def wait_until(self, condition: Callable[[Any], bool]) -> None:
        """Wait for a status."""
        end = time.monotonic() + cluster.PATIENCE
        while not (self.answers() and condition(self.status())):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.status()
            time.sleep(0.1)

    def wait_until_it_leads(self) -> None:
        """Wait until it knows that its node is the master, and the cluster."""
        self.wait_until(_leads)

    def wait_until_it_is_idle(self) -> None:
        """Wait until it knows that its node is not the master."""
        self.wait_until(_idle)

    def served(self) -> int:
        """How many requests it has decided."""
        return int(self.status()["decisions"]["served"])

    def polls(self) -> int:
        """How often configuration was asked for."""
        return _polls(self.status())

    def wait_for_polls(self, times: int) -> None:
        """Wait until it was asked for that often."""
        self.wait_until(lambda status: _polls(status) >= times)

    def refresh(self) -> None:
        """Have it ask for everything anew."""
        self.ask("refresh")


def agree(tmp_path: Path, node: str = cluster.MASTER) -> None:
    """The model of a node's daemon becomes what Debian's ``hscan`` finds, without being told of anything."""
    source, end = Source(daemon=str(cluster.socket_of(node))), time.monotonic() + cluster.PATIENCE
    while True:
        cluster.run(["/usr/bin/hscan", "-L", "-d", tmp_path], node=node)
        theirs, again = (tmp_path / "LOCAL.data").read_text("utf-8"), time.monotonic() + _AGAIN
        while time.monotonic() < again:
            ours = text.dump(read(source, lambda _text: None).cluster)
            if ours == theirs:
                return
            time.sleep(0.5)
        difference = "\n".join(difflib.unified_diff(theirs.splitlines(), ours.splitlines(), lineterm=""))
        assert time.monotonic() < end, difference


def _leads(status: Any) -> bool:
    return status["cluster"]["master"] is True and not status["cluster"]["late"]


def _idle(status: Any) -> bool:
    return status["cluster"]["master"] is False and status["luxi"]["state"] == "not asked"


def _polls(status: Any) -> int:
    return int(status["cluster"]["polls"]["configuration"]["done"])
