"""Samples of what is free in node groups, and forecasts from them."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ganeti_htools.model.load import HOURS, LoadProfile
from htoolsd.history.database import Sample
from htoolsd.metrics.samples import samples, work
from tests.unit.daemon.metrics.test_count import sample

GIB = 1024


def printed(capsys: pytest.CaptureFixture[str], known: list[Sample], name: str = "storage.data") -> list[Any]:
    work(sample(name), 100, known)
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_samples_memory_cpus_units_and_instances_of_each_group() -> None:
    found = {(group, resource): amounts for group, resource, *amounts in samples(sample("storage.data"))}
    assert found == {
        ("rack1", "memory"): [238 * GIB, 256 * GIB],
        ("rack1", "cpus"): [498, 512],
        ("rack1", "lvm-vg/hddvg"): [8180 * GIB - 256, 8192 * GIB],
        ("rack1", "lvm-vg/ssdvg"): [360 * GIB, 500 * GIB],
        ("rack1", "instances"): [125, 256 * GIB],
    }
    groups = {(group, resource) for group, resource, *_ in samples(sample("racks.data"))}
    resources = "memory", "cpus", "disk", "instances"
    assert groups == {(f"rack{number}", each) for number in (1, 2, 3) for each in resources}


def test_offline_nodes_do_not_count() -> None:
    whole = sample("storage.data")
    part = replace(whole, nodes=(replace(whole.nodes[0], offline=True), *whole.nodes[1:]))
    before, after = ({each[1]: each[3] for each in samples(cluster)} for cluster in (whole, part))
    assert all(after[name] < before[name] for name in before)


def test_measured_load_takes_cpus_in_its_worst_hour() -> None:
    cluster = sample("racks.data")
    peak = np.zeros((4, HOURS))
    peak[0, 7], peak[0, 9] = 3.0, 2.0
    profiles = {each.name: LoadProfile(peak, peak, peak[:, 0]) for each in cluster.instances}
    found = {
        group: (free, total)
        for group, resource, free, total in samples(replace(cluster, load_profiles=profiles))
        if resource == "real-cpus"
    }
    online = {node.name: node for node in cluster.nodes if not node.offline}
    names = {group.uuid: group.name for group in cluster.groups}
    cpus, used = Counter[str](), Counter[str]()
    for node in online.values():
        cpus[names[node.group]] += int(node.t_cpu)
    for row in cluster.instances:
        if row.pnode in online:
            used[names[online[row.pnode].group]] += 3 * row.uses_memory
    assert found == {group: (cpus[group] - used[group], cpus[group]) for group in cpus}
    assert used["rack1"] == 6


def test_cluster_without_enabled_templates_has_no_standard_instances() -> None:
    cluster = replace(sample("idle.data"), enabled_templates=())
    assert [resource for _, resource, *_ in samples(cluster)] == ["memory", "cpus"]


def test_forecast_comes_from_earlier_samples_and_this_days(capsys: pytest.CaptureFixture[str]) -> None:
    known = [Sample(day, "rack1", "memory", (438.0 - 2 * day) * GIB, 256.0 * GIB) for day in range(40, 100)]
    found = {pair[0][2]: pair for pair in printed(capsys, known)}
    assert found["memory"][0] == [100, "rack1", "memory", 238 * GIB, 256 * GIB]
    outcome, days, *ends = found["memory"][1]
    assert (outcome, days, ends) == ("growing", 61, pytest.approx([119, 119]))
    assert found["cpus"][1] == ["too little history", 1, None, None]


def test_day_is_sampled_once(capsys: pytest.CaptureFixture[str]) -> None:
    known = [Sample(day, "rack1", "memory", 7.0, 9.0) for day in range(50, 101)]
    ((row, found),) = printed(capsys, known)
    assert (row, found[:2]) == ([100, "rack1", "memory", 7.0, 9.0], ["not growing", 51])
