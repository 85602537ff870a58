"""Tools start without what they seldom need."""

import subprocess
import sys

import pytest

SLOW = {"httpx", "importlib.metadata", "structlog", "trio"}


@pytest.mark.parametrize("tool", ["hail", "hbal", "hcheck", "hinfo", "hroller", "hspace", "hsqueeze"])
def test_slow_modules_are_not_loaded(tool: str) -> None:
    program = f"import sys, ganeti_htools.cli.{tool}; print(*sorted({SLOW} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
