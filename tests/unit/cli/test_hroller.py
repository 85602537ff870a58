from dataclasses import replace
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli import hroller
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance


@pytest.fixture
def described() -> Cluster:
    """Four nodes, the first of which is the master; n2 has an instance without secondary."""
    instances = [
        instance("a", DiskTemplate.DRBD, "n0", "n1"),
        instance("b", DiskTemplate.EXT, "n2"),
    ]
    made = by_hand.cluster(dict.fromkeys(("n0", "n1", "n2", "n3"), 10_000), instances)
    master = replace(made.nodes[0], master=True, tags=("red",))
    return replace(made, nodes=(master, *made.nodes[1:3], replace(made.nodes[3], tags=("blue", "red"))))


def run(tmp_path: Path, described: Cluster, *options: str) -> int:
    path = tmp_path / "cluster.data"
    path.write_text(text.dump(described))
    return hroller.main(["-t", str(path), *options])


def test_what_was_loaded_is_saved(
    tmp_path: Path, described: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = tmp_path / "saved"
    assert run(tmp_path, described, "-S", str(prefix), "-O", "n3") == 0
    assert (tmp_path / "saved.original").read_text() == text.dump(described)
    assert capsys.readouterr().err == (
        f"The cluster state before hroller run has been written to file '{prefix}.original'\n"
    )
