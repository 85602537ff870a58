"""What docs/ledger.md tells is what happens: its clusters, commands and answers."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from ganeti_htools.backends import text
from tests.daemon.planning import ctl
from tests.support.postgresql import Server
from tests.support.programs import ROOT, Daemon, running, wait_until
from tests.support.simulators import simulator

COMMAND = "htoolsctl "


def blocks(section: str) -> list[str]:
    """What is indented below a heading of the document."""
    document = (ROOT / "docs/ledger.md").read_text("utf-8")
    below = document.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = re.findall(r"(?:    .*\n|\n(?=    ))+", below)
    return [textwrap.dedent(block).strip("\n") for block in found]


@contextmanager
def following(directory: Path, name: str, rows: str, config: str = "") -> Iterator[Daemon]:
    """A daemon that follows a cluster of that name, and whose ledger says what exists there."""
    directory.mkdir()
    with (
        simulator(directory, text.parse(f"{rows}\n\n", name), "--name", name) as _,
        running(directory, config=f"config_seconds = 0.05\n{config}") as daemon,
    ):
        wait_until(lambda: daemon.status()["ledger"]["behind_s"] is not None)
        yield daemon


def told(daemon: Daemon, command: str) -> list[str]:
    """What a command prints, without empty lines."""
    done = ctl(daemon, *command.removeprefix(COMMAND).split())
    return [line.rstrip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]


def says(daemon: Daemon, block: str) -> None:
    """Each command of a block prints what stands below it; at last, for the ledger follows."""
    for each in re.split(rf"\n(?={COMMAND})", block):
        command, *expected = (line.rstrip() for line in each.splitlines() if line.strip())
        if expected:
            wait_until(partial(_prints, daemon, command, expected))
        else:
            done = ctl(daemon, *command.removeprefix(COMMAND).split())
            assert (done.returncode, done.stderr) == (0, "")


def _prints(daemon: Daemon, command: str, expected: Sequence[str]) -> bool:
    """Whether a command prints what is expected, and how old all of it is."""
    return [line for line in told(daemon, command) if " old, " not in line] == expected


def test_the_example_with_gpus(tmp_path: Path) -> None:
    rows, *commands = blocks("GPUs")
    assert len(commands) == 3
    with following(tmp_path / "cluster", "cluster", rows) as daemon:
        for block in commands:
            says(daemon, block)


def test_the_example_with_two_clusters(tmp_path: Path, postgresql: Server) -> None:
    config, one, two, commands = blocks("A pool of two clusters")
    config = re.sub('postgresql://[^"]*', postgresql.database(), config)
    with ExitStack() as stack:
        first = stack.enter_context(following(tmp_path / "one", "one", one, config))
        second = stack.enter_context(following(tmp_path / "two", "two", two, config))
        says(first, commands)
        says(second, commands.split("\n\n")[0])
