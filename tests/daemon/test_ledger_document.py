"""The example of ``docs/ledger.md`` with two clusters and one database."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

from ganeti_htools.backends import text
from tests.daemon.planning import ctl
from tests.support.documents import SAMPLES, blocks, matches
from tests.support.postgresql import Server
from tests.support.programs import ROOT, Daemon, running, wait_until
from tests.support.simulators import simulator


@contextmanager
def following(directory: Path, name: str, config: str) -> Iterator[Daemon]:
    """Run a daemon that follows a sample cluster, once its ledger records that."""
    directory.mkdir()
    sample = (SAMPLES / f"ceph-{name}.data").read_text("utf-8")
    with (
        simulator(directory, text.parse(sample, name), "--name", name) as _,
        running(directory, config=f"config_seconds = 0.05\n{config}") as daemon,
    ):
        wait_until(lambda: daemon.status()["ledger"]["lag_s"] is not None)
        yield daemon


def shows(daemon: Daemon, command: str, expected: str) -> bool:
    """Whether a command prints what is expected, and then how old all of it is."""
    done = ctl(daemon, *command.removeprefix("htoolsctl ").split())
    printed = "\n".join(line for line in done.stdout.splitlines() if " old, " not in line)
    return matches(expected, printed)


def test_two_clusters_see_what_both_use_of_a_pool(tmp_path: Path, postgresql: Server) -> None:
    document = (ROOT / "docs/ledger.md").read_text("utf-8")
    found = list(blocks(document[document.index("## An example: two clusters") :]))
    (config,) = (block.text for block in found if block.kind == "config")
    (usage, used), (storage, pools) = (
        (command.text, output.text) for command, output in pairwise(found) if command.kind == "not"
    )
    config = re.sub('postgresql://[^"]*', postgresql.database(), config)
    with ExitStack() as stack:
        first = stack.enter_context(following(tmp_path / "one", "one", config))
        second = stack.enter_context(following(tmp_path / "two", "two", config))
        for daemon in (first, second):
            wait_until(partial(shows, daemon, usage, used))
        wait_until(partial(shows, first, storage, pools))
