"""hcheck counts what Debian's counts, and prints it in the same words."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from ganeti_htools.cli import hcheck
from ganeti_htools.model.cluster import Cluster
from tests.oracle.programs import ours, some_offline, theirs, write
from tests.support.clusters import Shape
from tests.support.oracle import Oracle
from tests.support.rows import any_cluster, generated

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


def kinds() -> dict[str, Cluster]:
    """Clusters of each kind by name."""
    made = generated(3, Shape(nodes=6, instances=18, groups=2, templates={"drbd": 4, "ext": 1}))
    first, *others = made.nodes
    offline = tuple(replace(node, offline=True) for node in made.nodes)
    unknown = replace(offline[0], t_mem=0, n_mem=0, f_mem=0, t_dsk=0, f_dsk=0, t_cpu=0)
    there = {node.name for node in made.nodes if node.group == made.groups[1].uuid}
    mirrored = next(row for row in made.instances if row.snode and row.pnode not in there)

    def with_secondary(name: str | None) -> Cluster:
        changed = (replace(row, snode=name) if row is mirrored else row for row in made.instances)
        return replace(made, instances=tuple(changed))

    return {
        "usual": made,
        "no instances": replace(made, instances=()),
        "empty group": replace(
            made,
            nodes=tuple(node for node in made.nodes if node.name in there),
            instances=tuple(row for row in made.instances if row.pnode in there),
        ),
        "offline nodes": replace(made, nodes=(*offline[:2], *made.nodes[2:])),
        "all offline": replace(made, nodes=offline),
        "unknown figures": replace(made, nodes=(unknown, *others)),
        "no CPUs": replace(made, nodes=(replace(first, t_cpu=0), *others)),
        "no nodes": replace(made, nodes=(), instances=()),
        "split": with_secondary(min(there)),
        "no secondary": with_secondary(None),
    }


KINDS = kinds()
INCOMPLETE = "no nodes", "split", "no secondary"  # Debian's leaves out keys, or aborts
COUNTS = "N1_FAIL", "CONFLICT_TAGS", "OFFLINE_PRI", "OFFLINE_SEC", "GN1_FAIL"


def documented_keys(cluster: Cluster) -> list[str]:
    """The keys of the machine-readable form in their order. Groups without nodes are named only."""
    with_nodes = {node.group for node in cluster.nodes}
    used = [row for row, group in enumerate(cluster.groups) if group.uuid in with_nodes]
    keys = [f"GROUP_UUID_{row}" for row in range(len(cluster.groups))]
    for phase in ("INIT", "FINAL"):
        keys += (f"{phase}_GROUP_{row}_{key}" for row in used for key in (*COUNTS, "SCORE"))
        keys += (f"{phase}_CLUSTER_{key}" for key in (*COUNTS, "NEED_REBALANCE"))
    return [f"HCHECK_{key}" for key in (*keys, "OK")]


@pytest.mark.parametrize("simulation", [[], ["--no-simulation"]])
@pytest.mark.parametrize("kind", KINDS)
def test_machine_readable_form_has_all_keys(
    oracle: Oracle, tmp_path: Path, kind: str, simulation: list[str]
) -> None:
    arguments = ["--machine-readable", *simulation, "-t", write(tmp_path, KINDS[kind])]
    found, expected = ours(hcheck.main, arguments), theirs(oracle, "hcheck", arguments)
    if kind in INCOMPLETE:
        assert set(expected.out.splitlines()) <= set(found.out.splitlines())
    else:
        assert found == expected
    pairs = dict(line.split("=") for line in found.out.splitlines())
    assert list(pairs) == documented_keys(KINDS[kind])
    needed = pairs["HCHECK_INIT_CLUSTER_NEED_REBALANCE"] == "1"
    assert found.status == int(needed and not simulation)
