"""``htoolsctl load`` and ``sizes``: what the daemon reports, as text."""

from dataclasses import replace
from typing import Any

import numpy as np

from ganeti_htools.cli.ctl import load
from ganeti_htools.model.cluster import Cluster, Group, Instance, Node
from ganeti_htools.model.load import HOURS, LoadProfile
from htoolsd.load.figures import LoadSample
from htoolsd.load.profiles import KnownLoad
from htoolsd.load.report import (
    hottest_hours,
    instances_to_json,
    loads_of_decisions,
    nodes_to_json,
    sizes_to_json,
)

NODES = tuple(Node(f"node{number}", "", t_mem=65536.0, t_cpu=16.0) for number in (1, 2))
ROWS = tuple(Instance(f"vm{number}", 8192, 0, (), 4, pnode=f"node{1 + number % 2}") for number in range(3))
CLUSTER = Cluster(groups=(Group("group", ""),), nodes=NODES, instances=ROWS)
STATE: dict[str, Any] = {"source": "prometheus", "age_s": 12.0, "coverage": 75.0, "unused": None}
STATE |= {"missing": ["vm9"], "impossible": [], "errors": []}


def profile(number: int) -> LoadProfile:
    """A load that is high in some hours, each time later in the week."""
    high = np.full(40, 3.9 if number == 1 else 1.2)
    cpu = np.roll(np.r_[high, np.full(HOURS - 40, 0.3)], 30 * number)
    hours = np.array([cpu, np.full(HOURS, 2500.0 + 2000 * number), np.ones(HOURS), np.ones(HOURS)])
    return LoadProfile(hours / 2, hours, hours[:, 0])


PROFILES = {row.name: profile(number) for number, row in enumerate(ROWS)}
SAMPLE = LoadSample(
    {"vm0": PROFILES["vm0"].last}, {"node1": np.array([2.0, 9000.0, 3.0, np.nan])}, {"node1": 0.02}
)


def test_load_shows_the_hottest_first() -> None:
    report = {
        "nodes": nodes_to_json(CLUSTER, PROFILES, SAMPLE),
        "instances": instances_to_json(CLUSTER, PROFILES, SAMPLE),
    }
    assert [line.rstrip() for line in load.loads(STATE | report).splitlines()] == [
        "Load: prometheus, 12 s old, known for 75 % of the instances",
        "unknown, counted with the median per VCPU: vm9",
        " Node  CPUs VCPUs now 95% worst at       GiB given now worst wait",
        " node2   16     4   ? 3.9   3.9 Tue 06h 64.0   8.0   ?   4.4    ?",
        " node1   16     8 2.0 1.5   1.5 Mon 00h 64.0  16.0 8.8   8.8   2%",
        "",
        " Instance VCPUs now 95% worst at      GiB now worst Node",
        " vm1          4   ? 3.9   3.9 Tue 06h 8.0   ?   4.4 node2",
        " vm0          4 1.2 1.2   1.2 Mon 00h 8.0 2.4   2.4 node1",
        " vm2          4   ? 1.2   1.2 Wed 12h 8.0   ?   6.3 node1",
    ]


def test_load_of_nodes_is_unknown_without_profiles() -> None:
    text = load.loads(STATE | {"nodes": nodes_to_json(CLUSTER, {}, SAMPLE), "instances": []})
    assert text.splitlines()[-2].split() == [
        "node1",
        "16",
        "8",
        "2.0",
        *"???",
        "64.0",
        "16.0",
        "8.8",
        "?",
        "2%",
    ]


def test_nodes_are_hot_by_their_worst_hour() -> None:
    """Pages show some nodes, decisions count the load of each in instances: 3 here."""
    cluster = replace(CLUSTER, load_profiles=PROFILES)
    assert {name: max(hours) for name, hours in hottest_hours(cluster, 1).items()} == {"node2": 0.244}
    assert hottest_hours(CLUSTER, 1) == {}
    nodes = nodes_to_json(CLUSTER, PROFILES, SAMPLE)
    assert loads_of_decisions(KnownLoad(PROFILES, (), 100.0, nodes)) == {"node2": 2.167, "node1": 0.833}
    assert loads_of_decisions(KnownLoad({}, (), 0.0, nodes_to_json(CLUSTER, {}, SAMPLE))) == {}


def test_sizes_names_what_fits_and_who_is_at_its_limit() -> None:
    text = load.sizes(list(sizes_to_json(CLUSTER, PROFILES)))
    assert [line.rstrip() for line in text.splitlines()] == [
        " Instance Node  VCPUs worst fit GiB worst fit full h",
        " vm0      node1     4   1.2   2 8.0   2.4 3.2",
        " vm1      node2     4   3.9     8.0   4.4         40",
        " vm2      node1     4   1.2   2 8.0   6.3",
    ]
    assert load.sizes([]) == "no instance has a size that does not fit its load"
