"""Groups that are reported as repaired are healthy for Debian's hcheck as well, as they are saved."""

from pathlib import Path
from random import Random

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli import hregroup
from tests.oracle.programs import ours, theirs
from tests.support.oracle import Oracle
from tests.support.seeds import parts
from tests.support.super_clusters import super_cluster

pytestmark = pytest.mark.oracle


def counts(oracle: Oracle, path: Path) -> dict[str, str]:
    """What Debian's hcheck counts."""
    told = theirs(oracle, "hcheck", ["--machine-readable", "--no-simulation", "-t", str(path)])
    assert told.status == 0, told.err
    return dict(line.removeprefix("HCHECK_INIT_").split("=") for line in told.out.splitlines())


@pytest.mark.parametrize("seeds", parts(80, 20))
def test_any_cluster(oracle: Oracle, tmp_path: Path, seeds: range) -> None:
    done = 0
    for seed in seeds:
        cluster = super_cluster(Random(seed), told=False, between=False, classes=False)
        (tmp_path / "cluster.data").write_text(text.dump(cluster))
        argv = ["redistribute", "-t", str(tmp_path / "cluster.data"), f"-S{tmp_path / 'saved'}"]
        told = ours(hregroup.main, argv)
        assert told.status in (0, 3), told.err
        before = counts(oracle, tmp_path / "saved.original")
        after = counts(oracle, tmp_path / "saved.regrouped")
        for number, group in enumerate(cluster.groups):
            level = f"GROUP_{number}"
            ill = [key for key in ("N1_FAIL", "OFFLINE_PRI") if before[f"{level}_{key}"] != "0"]
            worse = [key for key in ("N1_FAIL", "OFFLINE_PRI") if after[f"{level}_{key}"] != "0"]
            assert set(worse) <= set(ill)
            if f"Repaired: {group.name}" in told.out.splitlines():
                done += 1
                assert not worse
        offline = {node.name for node in cluster.nodes if node.offline}
        repaired = {
            group.uuid for group in cluster.groups if f"Repaired: {group.name}" in told.out.splitlines()
        }
        homes = {node.name: node.group for node in cluster.nodes}
        for row in text.parse((tmp_path / "saved.regrouped").read_text(), "").instances:
            assert not {homes[name] for name in (row.pnode, row.snode) if name in offline} & repaired
    assert done > 5
