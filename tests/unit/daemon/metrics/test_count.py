"""Expensive figures of node groups."""

import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli import hspace
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.types import DiskTemplate
from htoolsd.helper.program import encode
from htoolsd.metrics.count import figures
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.documents import SAMPLES


def sample(name: str) -> Cluster:
    return text.parse((SAMPLES / name).read_text("utf-8"), name)


@pytest.mark.parametrize("name", ["idle.data", "ceph-one.data"])
def test_count_of_a_single_group_is_hspaces(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    hspace.main(["-t", str(SAMPLES / name), "--machine-readable"])
    counts = {figure: value for _, figure, value in figures(sample(name))}
    assert f"HTS_ALLOC_INSTANCES={counts['free_instances']}\n" in capsys.readouterr().out


def test_group_that_is_not_redundant_takes_nothing_from_others() -> None:
    counts = {(name, figure): value for name, figure, value in figures(sample("racks.data"))}
    assert counts["rack1", "free_instances"] == 0
    assert counts["rack2", "free_instances"] > 200


def test_balanced_score_is_not_above_the_score() -> None:
    figures_of = figures(sample("drifted.data"))
    found = {name: value for name, figure, value in figures_of if figure == "balanced_score"}
    assert found["rack1"] == pytest.approx(0.44447113)
    assert found["rack2"] == pytest.approx(2.05314013)


def test_cluster_without_enabled_templates_has_scores_only() -> None:
    cluster = replace(sample("idle.data"), enabled_templates=())
    assert [figure for _, figure, _ in figures(cluster)] == ["balanced_score"]


def test_process_ends_itself_after_its_cpu_time() -> None:
    sizes = {f"n{number}": 1_000_000 for number in range(100)}
    rows = [instance(f"i{n}", DiskTemplate.DRBD, f"n{n % 90}", f"n{n % 90 + 1}") for n in range(2000)]
    command = [sys.executable, "-P", "-m", "htoolsd.helper.program", "htoolsd.metrics.count", "0.6"]
    done = subprocess.run(command, input=encode(by_hand.cluster(sizes, rows)), capture_output=True)
    assert (done.returncode, done.stderr) == (-signal.SIGPROF, b"")
