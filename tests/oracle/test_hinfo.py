"""hinfo says what Debian's says."""

import random
from pathlib import Path

import pytest

from ganeti_htools.cli import hinfo
from tests.oracle.hail import DATA, FILES, NO_FILES
from tests.oracle.programs import ours, some_offline, theirs, write
from tests.support.oracle import Oracle
from tests.support.rows import any_cluster

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("seed", range(40))
def test_any_cluster(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    cluster = any_cluster(rng)
    arguments = ["-t", write(tmp_path, cluster), *some_offline(rng, cluster)]
    arguments += rng.choice(
        ([], ["-v"], ["-v", "-v", "-p", "--print-instances"], ["-q", "--ignore-dynu"], ["-p+ptags,amem"])
    )
    assert ours(hinfo.main, arguments) == theirs(oracle, "hinfo", arguments)


@pytest.mark.parametrize("name", FILES or [None])
def test_files_that_ship_with_ganeti(oracle: Oracle, name: str | None) -> None:
    if name is None:
        pytest.skip(NO_FILES)
    arguments = ["-t", str(DATA / name), "-v", "-v", "-p", "--print-instances"]
    if name != "invalid-node.data":
        assert ours(hinfo.main, arguments) == theirs(oracle, "hinfo", arguments)
