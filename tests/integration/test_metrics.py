"""Metrics of a real Ganeti: they agree with its own lists. Nothing in the cluster is changed."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.cluster import GROUPS, jobs, run, table
from tests.integration.daemon import Daemon
from tests.support.programs import PROGRAMS

pytestmark = pytest.mark.integration


def test_metrics_agree_with_ganetis_lists() -> None:
    with Daemon() as daemon:
        command = (PROGRAMS / "htoolsctl", "--socket", daemon.socket, "metrics", "--exporter-names")
        daemon.ask("metrics")
        daemon.wait_until(lambda status: status["capacity"]["complete"])
        (text,) = run(command)
        queue = jobs()
    families = {family.name: family.samples for family in text_string_to_metric_families(text)}

    def values(name: str, label: str) -> dict[str, float]:
        return {sample.labels[label]: sample.value for sample in families[name]}

    listed = {name: cells for name, *cells in table("gnt-node", "name,ctotal,pinst_cnt,sinst_cnt")}
    for place, figure in enumerate(("ctotal", "pinst_cnt", "sinst_cnt")):
        expected = {name: float(cells[place]) for name, cells in listed.items() if cells[place].isdigit()}
        assert values(f"ganeti_node_{figure}", "node") == expected
    instances = [name for (name,) in table("gnt-instance", "name")]
    assert values("ganeti_instance_oper_ram", "instance").keys() == set(instances)
    assert sum(values("htoolsd_group_instances", "group").values()) == len(instances)
    assert values("htoolsd_group_nodes", "group").keys() == set(GROUPS.values())
    counted = values("ganeti_cluster_jobs", "job_status")
    assert {status: count for status, count in counted.items() if count} == {
        status: [job.status for job in queue].count(status) for status in {job.status for job in queue}
    }
    operations = {sample.labels["job_operation"] for sample in families["ganeti_job_run_time"]}
    assert operations <= {f"OP_{re.split('[(,]', job.summary)[0]}" for job in queue}
    assert values("htoolsd_group_free_instances", "group").keys() == set(GROUPS.values())
