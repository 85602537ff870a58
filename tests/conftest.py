"""What all tests share."""

import compileall
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from trio.testing import MockClock

from htoolsd.ledger.records import file_url
from tests.support import installed_ganeti
from tests.support import postgresql as postgresql_server
from tests.support.clocks import jumping
from tests.support.oracle import Oracle

# Where a change is judged, every run takes the same examples; a search takes others each time.
settings.register_profile("judged", deadline=None, derandomize=True)
settings.register_profile("searched", deadline=None)
settings.load_profile("judged")

# Tests go by the rules of Ganeti 3.0 unless they name others, whatever this machine has.
installed_ganeti.ignore()


def pytest_configure(config: pytest.Config) -> None:
    """Compile our modules, as an installation does: tests start hundreds of programs."""
    if not hasattr(config, "workerinput"):
        for package in ("ganeti_htools", "daemon", "tests"):
            compileall.compile_dir(config.rootpath / package, quiet=1)


@pytest.fixture
def heeding() -> Iterator[None]:
    """Programs that are started meanwhile heed SIGINT and SIGHUP, also where the tests are to ignore them.

    (``nohup make test &``.) A handler is lost when a program is started, and does nothing here.
    """
    ignored = [
        number for number in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_IGN
    ]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    """Debian's own hail and hbal, or those in the folder ORACLE; without them the test is skipped."""
    if folder := os.environ.get("ORACLE"):
        return Oracle(Path(folder, "hail"), Path(folder, "hbal"))
    hail, hbal = Path("/usr/lib/ganeti/iallocators/hail"), shutil.which("hbal", path="/usr/bin")
    if hbal is None or not hail.exists():
        pytest.skip("no oracle: install Debian's ganeti-htools (apt-get install ganeti-htools)")
    return Oracle(hail, Path(hbal))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[postgresql_server.Server]:
    """A PostgreSQL server for these tests alone; without Debian's package the test is skipped."""
    programs = postgresql_server.programs()
    if programs is None:
        pytest.skip("no PostgreSQL: install Debian's postgresql (apt-get install postgresql)")
    with postgresql_server.serving(programs) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger is to be, in each of the two databases: nothing is there yet.

    The file is where the daemon has it whose directory is that of the test.
    """
    if request.param == "sqlite":
        (tmp_path / "state").mkdir()
        return file_url(str(tmp_path / "state"))
    server: postgresql_server.Server = request.getfixturevalue("postgresql")
    return server.database()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that search for counterexamples at random."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("searching")


@pytest.fixture
def autojump_clock() -> Iterator[MockClock]:
    """The clock of pytest-trio, but what threads do takes no time."""
    with jumping() as clock:
        yield clock
