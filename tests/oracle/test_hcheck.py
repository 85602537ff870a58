"""hcheck counts what Debian's counts, and prints it in the same words."""

import random
from pathlib import Path

import pytest

from ganeti_htools.cli import hcheck
from tests.oracle.programs import ours, some_offline, theirs, write
from tests.support.oracle import Oracle
from tests.support.rows import any_cluster

pytestmark = pytest.mark.oracle

OPTIONS: tuple[list[str], ...] = (
    ["--machine-readable"],
    ["--machine-readable", "--no-capacity-checks"],
    ["--machine-readable", "--no-simulation"],
    ["--machine-readable", "--max-cpu=2", "--min-disk=0.1"],
    ["--machine-readable", "--evac-mode"],
    ["--machine-readable", "--no-disk-moves"],
    ["--machine-readable", "--no-instance-moves", "-l", "2"],
    ["--machine-readable", "--exclusion-tags=service", "--ignore-soft-errors"],
    ["--machine-readable", "-e", "0.5", "-g", "0.2", "--min-gain-limit=5"],
    [],
    ["-q"],
    ["-q", "-q"],
)


@pytest.mark.parametrize("seed", range(48))
def test_any_cluster(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    cluster = any_cluster(rng)
    arguments = [*OPTIONS[seed % len(OPTIONS)], *some_offline(rng, cluster), "-t", write(tmp_path, cluster)]
    assert ours(hcheck.main, arguments) == theirs(oracle, "hcheck", arguments)
