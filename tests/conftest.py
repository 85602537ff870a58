"""What all tests share."""

import compileall
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import delete
from trio.testing import MockClock

from htoolsd.config.ledger import file_url
from htoolsd.store.database import LedgerDatabase
from htoolsd.store.tables import classes, metadata
from tests.support import installed_ganeti
from tests.support import postgresql as postgresql_server
from tests.support.certificates import judging
from tests.support.clocks import jumping
from tests.support.oracle import Oracle

# Where a change is judged, every run takes the same examples; a search takes others each time.
# No example fails because the machine is busy.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("judged", patient, derandomize=True, max_examples=15)
settings.register_profile("searched", patient)
settings.load_profile("judged")

# Tests go by the rules of Ganeti 3.0 unless they name others, whatever this machine has.
installed_ganeti.ignore()


def pytest_configure(config: pytest.Config) -> None:
    """Compile our modules, as an installation does: tests start hundreds of programs.

    Tests themselves are rewritten for their assertions, which is another compilation.
    """
    if not hasattr(config, "workerinput"):
        for package in ("ganeti_htools", "daemon", "tests/support"):
            compileall.compile_dir(config.rootpath / package, quiet=1)


@pytest.fixture(scope="session", autouse=True)
def _judging() -> Iterator[None]:
    with judging():
        yield


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


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """``hbal --front`` and plans with a price come from few steps, unless they have a time."""
    monkeypatch.setattr("ganeti_htools.planning.balancing.hbal.EVALUATIONS", 50)


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


@pytest.fixture(scope="session")
def emptied_ledger(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], str]:
    """Return where a ledger is in a kind of database: creating one takes longer than most tests.

    It has no content, but perhaps resource classes, which are never removed.
    """
    databases = dict[str, tuple[str, LedgerDatabase]]()

    def emptied(kind: str) -> str:
        if kind not in databases:
            if kind == "sqlite":
                url = file_url(str(tmp_path_factory.mktemp("ledger")))
            else:
                url = request.getfixturevalue("postgresql").database()
            databases[kind] = url, LedgerDatabase(url)
        url, database = databases[kind]
        with database.writing() as connection:
            for table in reversed(metadata.sorted_tables):
                if table is not classes:
                    connection.execute(delete(table))
        database.close()  # other tests end the connections of the server
        return url

    return emptied


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_ledger_url(request: pytest.FixtureRequest, emptied_ledger: Callable[[str], str]) -> str:
    """Where a ledger without content is, in each of the two databases."""
    return emptied_ledger(request.param)


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
