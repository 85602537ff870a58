"""What hsqueeze leaves is N+1 by Debian's tools, and where only common rules bind it frees no fewer nodes."""

import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli import hsqueeze
from ganeti_htools.model.cluster import Cluster
from tests.oracle.programs import ours, theirs
from tests.support.clusters import TIGHT, Shape
from tests.support.oracle import Oracle
from tests.support.rows import with_master
from tests.support.seeds import parts

pytestmark = pytest.mark.oracle


def described(seed: int) -> Cluster:
    """A cluster of one group; the same for the same seed."""
    rng = random.Random(seed)
    shape = Shape(
        nodes=rng.randint(3, 10),
        instances=rng.randint(3, 40),
        templates=rng.choice(
            ({"ext": 4, "rbd": 1}, {"ext": 8, "sharedfile": 2, "drbd": 1}, {"ext": 6, "plain": 1})
        ),
        fill=rng.choice((0.2, 0.4, 0.6, TIGHT)),
        offline=rng.choice((0, 0, 0, 1)),
        down=rng.choice((0.0, 0.1, 0.3)),
        tags=rng.choice(((), (), (), ("exclusion",))),
    )
    return with_master(seed, shape)


def clean(oracle: Oracle, directory: Path, cluster: Cluster) -> bool:
    """Whether a cluster is N+1 by Debian's hcheck without the empty nodes that are offline, on which that
    would have instances come back.
    """
    hosts = {name for row in cluster.instances for name in (row.pnode, row.snode)}
    nodes = tuple(node for node in cluster.nodes if not node.offline or node.name in hosts)
    path = directory / "checked.data"
    path.write_text(text.dump(replace(cluster, nodes=nodes)), "utf-8")
    told = theirs(oracle, "hcheck", ["-t", str(path), "--machine-readable", "--no-simulation"]).out
    counts = re.findall(r"^HCHECK_INIT_CLUSTER_(?:N1_FAIL|GN1_FAIL)=(\d+)$", told, re.MULTILINE)
    assert len(counts) == 2
    return counts == ["0", "0"]


def squeezed(oracle: Oracle, directory: Path, cluster: Cluster, factor: int) -> tuple[Cluster, Cluster]:
    """What their hsqueeze leaves, and ours."""
    path = directory / "cluster.data"
    path.write_text(text.dump(cluster), "utf-8")
    argv = ["-t", str(path), "--minimal-resources=0", f"--target-resources={factor}", "-S"]
    assert theirs(oracle, "hsqueeze", [*argv, str(directory / "theirs")]).status == 0
    assert ours(hsqueeze.main, [*argv, str(directory / "ours")]).status == 0
    left = [(directory / f"{whose}.squeezed").read_text("utf-8") for whose in ("theirs", "ours")]
    return reported(cluster, text.parse(left[0], "theirs")), reported(cluster, text.parse(left[1], "ours"))


def reported(before: Cluster, saved: Cluster) -> Cluster:
    """A cluster that was saved, with the memory that nodes will report as free."""
    was, now = used(before), used(saved)
    pairs = zip(saved.nodes, before.nodes, strict=True)
    nodes = [replace(node, f_mem=old.f_mem + was[node.name] - now[node.name]) for node, old in pairs]
    return replace(saved, nodes=tuple(nodes))


def used(cluster: Cluster) -> Counter[str]:
    """What instances that run use (MiB), by node."""
    memory = Counter[str]()
    for row in cluster.instances:
        memory[row.pnode] += row.mem if row.uses_memory else 0
    return memory


def online(cluster: Cluster) -> int:
    return sum(not node.offline for node in cluster.nodes)


def compared(oracle: Oracle, directory: Path, seed: int) -> tuple[bool, int]:
    """Whether only common rules bind, and how many more nodes ours frees then."""
    cluster = described(seed)
    theirs_left, ours_left = squeezed(oracle, directory, cluster, random.Random(seed).choice((1, 2, 20)))
    was = clean(oracle, directory, cluster)
    if was:
        assert clean(oracle, directory, ours_left)
    else:
        assert online(ours_left) == online(cluster)
    common = was and online(theirs_left) > 1 and clean(oracle, directory, theirs_left)
    more = online(theirs_left) - online(ours_left)
    if common:
        assert more >= 0
    return common, more


@pytest.mark.parametrize("seeds", parts(40, 8))
def test_at_least_as_many_nodes_and_n1(oracle: Oracle, tmp_path: Path, seeds: range) -> None:
    assert sum(compared(oracle, tmp_path, seed)[0] for seed in seeds)
