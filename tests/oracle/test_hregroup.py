"""What hregroup saves is as healthy for Debian's hcheck as what was before it emptied or balanced groups."""

import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from ganeti_htools.cli import hregroup
from ganeti_htools.model.cluster import Cluster
from tests.oracle.programs import ours, theirs, write
from tests.support.oracle import Oracle
from tests.support.seeds import few
from tests.support.super_clusters import super_cluster

pytestmark = pytest.mark.oracle


def cluster(seed: int) -> Cluster:
    """A cluster of several groups for Debian's tools: no units or classes, no instance between two groups."""
    found = super_cluster(Random(seed), classes=False)
    group = {node.name: node.group for node in found.nodes}
    rows = tuple(
        replace(row, disks=tuple(replace(disk, unit=None) for disk in row.disks))
        for row in found.instances
        if row.snode is None or group[row.pnode] == group[row.snode]
    )
    return replace(found, nodes=tuple(replace(node, storage=None) for node in found.nodes), instances=rows)


def counts(oracle: Oracle, path: str) -> dict[str, list[int]]:
    """By group: nodes that fail N+1, have conflicts or cannot be lost, and instances with an offline node."""
    told = theirs(oracle, "hcheck", ["--no-simulation", "-t", path]).out
    groups = re.findall(r"^Statistics for group (\S+) initially\n((?:    .*\n)*)", told, re.MULTILINE)
    return {name: [int(n) for n in re.findall(r": (\d+)$", lines, re.MULTILINE)] for name, lines in groups}


@pytest.mark.parametrize("action", ["compress", "balance"])
@pytest.mark.parametrize("seeds", few(range(40), 80))
def test_no_group_gets_worse(oracle: Oracle, tmp_path: Path, action: str, seeds: range) -> None:
    changed = 0
    for seed in seeds:
        path, saved = write(tmp_path, cluster(seed)), tmp_path / "saved"
        done = ours(hregroup.main, [action, "-t", path, f"-S{saved}", "--allow-plain"])
        assert done.status == 0, done.err
        before, after = counts(oracle, path), counts(oracle, f"{saved}.regrouped")
        assert before.keys() == after.keys()
        for group, counted in after.items():
            assert all(now <= was for now, was in zip(counted, before[group], strict=True)), (seed, group)
        for group in re.findall("^Emptied: (.*)", done.out, re.MULTILINE):
            # The fourth figure counts offline nodes, whatever it is called.
            assert not any(after[group][at] for at in (0, 1, 2, 4))
        changed += bool(re.search(" moves? in ", done.out))
    assert changed > 5
