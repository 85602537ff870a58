"""The metrics of prometheus-ganeti-exporter."""

import re

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from htoolsd.metrics.durations import Durations
from htoolsd.metrics.exporter import EXPORTER_METRICS, JobTimes, document, query_jobs
from htoolsd.metrics.metric import render
from tests.support.memory_ganeti import following, ganeti

# Expressions of the project's dashboards, and the metric that they do not show: names and labels.
DASHBOARDS = """
ganeti_cluster_instance_count / (ganeti_hspace_allocatable_instances + ganeti_cluster_instance_count)
count by (cluster) (ganeti_cluster_node_count)
ganeti_hbal_initial_score - ganeti_hbal_target_score
ganeti_hbal_target_score{cluster="", node_group=""}
ganeti_instance_oper_ram{cluster=""} ganeti_instance_oper_vcpus{cluster=""}
ganeti_node_ctotal{cluster=""} ganeti_node_dtotal{cluster=""} ganeti_node_dfree{cluster=""}
ganeti_node_mtotal{cluster=""} ganeti_node_mfree{cluster=""} ganeti_node_p_oper_vcpus{cluster=""}
ganeti_node_pinst_cnt{cluster=""} ganeti_node_sinst_cnt{cluster=""} ganeti_node_s_oper_vcpus{cluster=""}
ganeti_cluster_jobs{cluster="", job_status="error"} ganeti_cluster_offline_nodes{cluster=""}
ganeti_job_run_time{cluster="", job_operation=""} ganeti_job_wait_time{cluster="", job_id=""}
ganeti_scrape_duration_seconds
"""
STATUS = {
    "cluster": {"master": True},
    "groups": [{"name": "default", "score": 2.5}],
    "capacity": {"groups": [{"name": "default", "free_instances": 7, "balanced_score": 1.5}]},
}
SCRAPES = Durations()
SCRAPES.add(0.25)
SCRAPES.add(0.5)
JOBS = [
    JobTimes(3, "success", "OP_INSTANCE_CREATE", 0.5, 20.0),
    JobTimes(4, "running", "OP_CLUSTER_VERIFY", 1.0, None),
]


def test_names_and_labels_of_the_dashboards_are_there() -> None:
    labels = {metric.name: set(metric.labels) for metric in EXPORTER_METRICS}
    for name, matchers in re.findall(r"(ganeti_\w+)(\{[^}]*\})?", DASHBOARDS):
        assert set(re.findall(r"(\w+)=", matchers)) <= labels[name]
    assert set(re.findall(r"ganeti_\w+", DASHBOARDS)) == labels.keys()


async def test_values_are_those_of_the_cluster(autojump_clock: trio.testing.MockClock) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await sync.poll_all()
        model = sync.model
        text = render(EXPORTER_METRICS, document(model, JOBS, STATUS, SCRAPES))
        async with sync.client() as client:
            assert isinstance(await query_jobs(client), list)
    assert model.cluster is not None
    families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    assert [each.value for each in families.pop("ganeti_scrape_duration_seconds")] == [2, 0.75]
    assert {sample.labels["cluster"] for samples in families.values() for sample in samples} == {model.name}
    for name, field in (("mtotal", "t_mem"), ("mfree", "f_mem"), ("ctotal", "t_cpu"), ("dtotal", "t_dsk")):
        found = {each.labels["node"]: each.value for each in families[f"ganeti_node_{name}"]}
        assert found == {node.name: getattr(node, field) for node in model.cluster.nodes if node.t_mem}
    primaries = [row.pnode for row in model.cluster.instances]
    for each in families["ganeti_node_pinst_cnt"]:
        assert each.value == primaries.count(each.labels["node"])
    (count,) = families["ganeti_cluster_instance_count"]
    assert count.value == len(primaries) == len(families["ganeti_instance_oper_ram"])
    vcpus = sum(each.value for each in families["ganeti_instance_oper_vcpus"])
    assert vcpus == sum(each.value for each in families["ganeti_node_p_oper_vcpus"]) > 0
    jobs = {each.labels["job_status"]: each.value for each in families["ganeti_cluster_jobs"]}
    assert (jobs["success"], jobs["running"], jobs["error"], len(jobs)) == (1, 1, 0, 7)
    assert [(each.labels["job_id"], each.value) for each in families["ganeti_job_run_time"]] == [("3", 20.0)]
    assert [each.value for each in families["ganeti_job_wait_time"]] == [0.5, 1.0]
    values = [families[f"ganeti_{name}"][0].value for name in ("hbal_initial_score", "hbal_target_score")]
    assert values == [2.5, 1.5]
    assert families["ganeti_hspace_allocatable_instances"][0].value == 7


@pytest.mark.parametrize("master", [False, None])
async def test_other_nodes_have_no_values(
    autojump_clock: trio.testing.MockClock, master: bool | None
) -> None:
    async with ganeti() as luxid, following(luxid) as sync:
        await sync.poll_all()
        status = STATUS | {"cluster": {"master": master}}
        text = render(EXPORTER_METRICS, document(sync.model, JOBS, status, Durations()))
    values = [line for line in text.splitlines() if not line.startswith("#")]
    assert values == ["ganeti_scrape_duration_seconds_count 0.0", "ganeti_scrape_duration_seconds_sum 0.0"]
