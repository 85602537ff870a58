"""State directories of daemons of each version, kept in tests/daemon/states.

``python -m tests.support.states`` adds or replaces that of this version.
"""

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from ganeti_htools.version import VERSION
from tests.daemon.planning import DRAINED, call, ctl, following, made, until
from tests.support.cases import TYPES
from tests.support.programs import executable, request_file, wait_until
from tests.support.rows import generated
from tests.support.storage_units import case_with_units

STATES = Path(__file__).parents[1] / "daemon" / "states"
CONFIG = """\
config_seconds = 0.1
history_days = 100000.0
[rebalance]
mode = "act"
every_seconds = 1.0
hold = 1
start = 0.02
stop = 0.01
min_gain = 0.001
max_moves = 1
[recording]
mib = 1
days = 100000.0
"""


def keep() -> None:
    """Keep the state of a daemon that has decided, carried out a plan, and run a policy."""
    rows = generated(3, DRAINED)
    with (
        tempfile.TemporaryDirectory() as directory,
        following(Path(directory), rows, config=CONFIG) as (daemon, ganeti),
    ):
        done = ctl(daemon, "inventory", "set", rows.nodes[1].name, "CUSTOM_GPU", "--total", 4)
        assert done.returncode == 0, done.stderr
        assert executable(daemon.socket, request_file(Path(directory))).returncode == 0
        call(daemon, "execute", plan=made(daemon, max_length=2)["id"])
        until(daemon, "done")
        wait_until((daemon.state / "policies.json").exists)
        for kind in TYPES:
            call(daemon, "decide", request=case_with_units(1, kind).text, claim=True)
        daemon.signal()
        daemon.wait()
        cluster = ganeti.cluster()
        target = STATES / VERSION
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(daemon.state, target, ignore=shutil.ignore_patterns("lock", "*.sqlite*"))
        (target / "cluster.data").write_text(cluster)
        for path in daemon.state.glob("*.sqlite"):
            with closing(sqlite3.connect(path)) as database:
                (version,) = database.execute("PRAGMA user_version").fetchone()
                lines = [*database.iterdump(), f"PRAGMA user_version = {version};"]
            (target / f"{path.stem}.sql").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    keep()
