"""Debian's hail on clusters in the text format, for what it does before it looks at the request."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from tests.support.clusters import ipolicy
from tests.support.messages import allocate
from tests.support.oracle import Oracle

SUITE = Path(__file__).parents[2] / ".cache/debian/usr/share/ganeti/testsuite/test/data"
DATA = Path(os.environ.get("TESTDATA_DIR", SUITE / "htools"))
FILES = [path.name for path in sorted(DATA.glob("*.data"))]
NO_FILES = "no data files of upstream's tests: 'make conformance' fetches them"

REQUEST = json.dumps(
    {
        "cluster_tags": [],
        "enabled_hypervisors": ["xen-pvm"],
        "instances": {},
        "ipolicy": ipolicy(),
        "nodegroups": {},
        "nodes": {},
        "request": allocate("new", "plain"),
    }
)


def hail(oracle: Oracle, *options: str) -> str:
    """What it says on standard error."""
    command = [str(oracle.hail), *options, "--no-capacity-checks", "-"]
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    result = subprocess.run(
        command, input=REQUEST, capture_output=True, check=False, encoding="utf-8", env=environment
    )
    return result.stderr


def saved(oracle: Oracle, *options: str) -> str:
    """The cluster that these options describe, as it saves it."""
    with tempfile.TemporaryDirectory() as directory:
        message = hail(oracle, *options, "-S", f"{directory}/saved")
        output = Path(directory, "saved.pre-ialloc")
        assert output.exists(), message
        return output.read_text("utf-8")
