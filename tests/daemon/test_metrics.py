"""The metrics of a running daemon."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from htoolsd.metrics.declarations import METRICS
from htoolsd.metrics.exporter import EXPORTER_METRICS
from tests.daemon.planning import call, ctl, following
from tests.support.programs import Daemon, request_file, running, wait_until
from tests.support.worlds import uneven


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with following(tmp_path_factory.mktemp("metrics"), uneven()) as (daemon, _):
        wait_until(lambda: samples(daemon).get(("htoolsd_group_balanced_score", "default")) is not None)
        yield daemon


def samples(daemon: Daemon) -> dict[tuple[str, ...], float]:
    """The values by name and values of labels, in the order of their names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(call(daemon, "metrics")["text"])
        for sample in family.samples
    }


def test_every_metric_is_declared_and_follows_the_status(daemon: Daemon, tmp_path: Path) -> None:
    assert ctl(daemon, "decide", request_file(tmp_path)).returncode == 0
    found, status = samples(daemon), daemon.status()
    assert {name for name, *_ in found} <= {name for metric in METRICS for name in metric.sample_names}
    (group,) = status["groups"]
    name = group["name"]
    assert found["htoolsd_group_score", name] == pytest.approx(group["score"])
    parts = [value for key, value in found.items() if key[0] == "htoolsd_group_score_component"]
    assert sum(parts) == pytest.approx(group["score"])
    assert found["htoolsd_group_nodes", name] == status["cluster"]["nodes"]
    assert found["htoolsd_group_instances", name] == status["cluster"]["instances"]
    assert found["htoolsd_group_balanced_score", name] < found["htoolsd_group_score", name]
    assert found["htoolsd_group_free_instances", name] == status["capacity"]["groups"][0]["free_instances"]
    assert found["htoolsd_decisions_total", "served", "allocate"] == 1
    assert found["htoolsd_decision_duration_seconds_count",] == 1
    assert found["htoolsd_policy_mode", "off", "squeeze"] == 1
    assert found["htoolsd_policy_decisions_total", "begun", "squeeze"] == 0
    assert found["htoolsd_plans", "running"] == 0
    assert found["htoolsd_master",] == found["htoolsd_luxid_up",] == 1


def test_exporter_names_are_added(daemon: Daemon) -> None:
    own = ctl(daemon, "metrics").stdout
    both = ctl(daemon, "metrics", "--exporter-names").stdout
    added = [line for line in both.splitlines() if line.startswith("ganeti_")]
    assert not any(line.startswith("ganeti_") for line in own.splitlines())
    for metric in (*METRICS, *EXPORTER_METRICS):
        assert f"# HELP {metric.name} " in both
    assert len(added) > 50


def test_textfile_is_replaced_as_a_whole(daemon: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "htoolsd.prom"
    file.write_text("old")
    shown = ctl(daemon, "metrics", "--textfile", file)
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "", "")
    assert file.read_text().startswith("# HELP htoolsd_info ")
    assert [path.name for path in tmp_path.iterdir()] == ["htoolsd.prom"]
    shown = ctl(daemon, "metrics", "--textfile", tmp_path / "no" / "file")
    assert (shown.returncode, shown.stderr.count("\n")) == (1, 1)


def test_textfile_stays_without_a_daemon(daemon: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "htoolsd.prom"
    file.write_text("old")
    shown = ctl(daemon, "--socket", tmp_path / "nothing", "metrics", "--textfile", file)
    assert (shown.returncode, file.read_text()) == (1, "old")


def test_other_nodes_than_the_master_have_no_figures_of_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "ssconf_master_node").write_text("other.example.org\n")
    with running(tmp_path, options=["--stay"]) as daemon:
        found = samples(daemon)
    assert found["htoolsd_master",] == 0
    assert not [key for key in found if key[0].startswith("htoolsd_group") or "age" in key[0]]
