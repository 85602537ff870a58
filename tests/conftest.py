"""What all tests share."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

# The same examples on every run where a change is judged, others each time elsewhere.
settings.register_profile("htoolsd", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("htoolsd")


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
