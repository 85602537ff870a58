"""Our tables of nodes are those of Debian's tools for the same file."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from ganeti_htools.backends import text
from ganeti_htools.cli.report import tables
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.derive import derive
from tests.oracle.hail import DATA, FILES, NO_FILES, hail
from tests.support.oracle import Oracle
from tests.support.strategies import clusters

pytestmark = pytest.mark.oracle

# All but "peermap", where the order of equal peers depends on history.
FIELDS = (
    *("+", "idx", "fqdn", "amem", "plist", "slist", "ptags", "spindle_count", "hi_spindles"),
    *("inst_spindles", "bla"),
)


def compare(oracle: Oracle, path: Path, cluster: Cluster) -> None:
    told = hail(oracle, "-t", str(path), "-p+" + ",".join(FIELDS[1:]))
    _, _, table = told.partition("Initial cluster status:\n")
    assert tables.nodes(derive(cluster), FIELDS) == table.partition("\n\n")[0] + "\n"


@pytest.mark.parametrize("name", FILES or [None])
def test_files_that_ship_with_ganeti(oracle: Oracle, name: str | None) -> None:
    if name is None:
        pytest.skip(NO_FILES)
    if name != "invalid-node.data":
        compare(oracle, DATA / name, text.parse((DATA / name).read_text("utf-8"), name))


@settings(max_examples=100)
@given(cluster=clusters(largest=10**6))
def test_any_cluster(oracle: Oracle, cluster: Cluster) -> None:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write(text.dump(cluster))
        file.flush()
        compare(oracle, Path(file.name), cluster)
