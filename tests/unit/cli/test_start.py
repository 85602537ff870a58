"""What every tool pays for when it starts."""

import subprocess
import sys

import pytest

SLOW = {
    "importlib.metadata",
    "trio",
    "ganeti_htools.version",
    "ganeti_htools.execution",
    "ganeti_htools.client",
}


@pytest.mark.parametrize("tool", ["hbal", "hsqueeze", "hspace", "hail"])
def test_what_is_seldom_needed_is_not_loaded(tool: str) -> None:
    text = f"import ganeti_htools.cli.{tool}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not SLOW.intersection(loaded)
    assert ("orjson" in loaded) == (tool == "hail")  # text needs none
