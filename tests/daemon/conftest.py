"""What tests of running daemons share."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs import Daemon, request_file, running


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon without a cluster, for tests that do not disturb each other."""
    with running(tmp_path_factory.mktemp("daemon")) as daemon:
        yield daemon


@pytest.fixture
def unprivileged() -> tuple[str, ...]:
    """What begins a command that has no capabilities."""
    prefix = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
    if prefix and shutil.which("setpriv") is None:
        pytest.skip("root may do everything, and there is no setpriv to give that up")
    return prefix


@pytest.fixture
def request_path(tmp_path: Path) -> Path:
    """A request, in a file."""
    return request_file(tmp_path)
