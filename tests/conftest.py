"""What all tests share."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

# The same examples on every run where a change is judged, others each time elsewhere.
settings.register_profile("htoolsd", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("htoolsd")


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


class Oracle(NamedTuple):
    """Debian's own tools."""

    hail: Path
    hbal: Path


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    """Debian's own hail and hbal; without them the test is skipped."""
    hail, hbal = Path("/usr/lib/ganeti/iallocators/hail"), shutil.which("hbal", path="/usr/bin")
    if hbal is None or not hail.exists():
        pytest.skip("no oracle: install Debian's ganeti-htools (apt-get install ganeti-htools)")
    return Oracle(hail, Path(hbal))
