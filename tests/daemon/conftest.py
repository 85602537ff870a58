"""What tests of running daemons share."""

from pathlib import Path

import pytest

from tests.support.programs import request_file


@pytest.fixture
def request_path(tmp_path: Path) -> Path:
    """A request, in a file."""
    return request_file(tmp_path)
