"""The load that the daemon follows: rounds, the file, and when load is used."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from ganeti_htools import machine
from ganeti_htools.backends import load_profiles
from ganeti_htools.model.cluster import Cluster, Group, Instance, Node
from ganeti_htools.model.columns import Floats
from ganeti_htools.model.load import LoadProfile
from htoolsd.config.load import LoadSettings
from htoolsd.load.figures import HOUR, LoadError, LoadHours, LoadNames, LoadSample
from htoolsd.load.measured_load import MeasuredLoad, errors_of_source
from htoolsd.load.mond import MonitoringDaemons
from htoolsd.load.program import LoadProgram
from tests.support import http_server
from tests.support.settings import settings

ROWS = tuple(Instance(f"vm{number}.example.com", 1024, 0, (), 2, pnode="node1") for number in range(1, 6))
CLUSTER = Cluster(groups=(Group("group", ""),), nodes=(Node("node1", ""),), instances=ROWS)
NOW = 1_700_000_000.0
FIGURES = np.array([1.5, 512.0, 1.0, 0.0])


class Synced:
    """The cluster, and the profiles that plans and tools count after each change."""

    led_cluster = CLUSTER

    def __init__(self) -> None:
        self.counted = list[Mapping[str, LoadProfile] | None]()

    async def count_load(self, profiles: Mapping[str, LoadProfile] | None) -> None:
        self.counted.append(profiles)


class Source:
    """A source of constant load, which fails while it has ``errors``. It notes the hours asked for."""

    def __init__(self, known: int = 5) -> None:
        self.names = [row.name for row in ROWS[:known]]
        self.errors: list[str] = []
        self.asked: list[tuple[float, float]] = []

    async def sample(self, _names: LoadNames) -> LoadSample:
        if self.errors:
            raise LoadError(self.errors)
        return LoadSample(dict.fromkeys(self.names, FIGURES), {}, {})

    async def hours(self, _names: LoadNames, begin: float, end: float) -> LoadHours:
        self.asked.append((begin, end))
        figures: Mapping[str, Floats] = {
            name: np.tile(FIGURES[:, None], round((end - begin) / HOUR)) for name in self.names
        }
        return LoadHours(begin, figures, figures)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test changes."""
    times = [NOW]
    monkeypatch.setattr(machine, "now", lambda: times[0])
    return times


def measured_load(directory: Path, sync: Any = None, **keys: Any) -> MeasuredLoad:
    known = settings(load=LoadSettings(**{"source": "program", "program": "/bin/true", **keys}))
    synced: Any = sync or Synced()
    return MeasuredLoad(str(directory / "load.json"), known, synced)


async def test_four_weeks_are_asked_for_at_first_and_then_each_hour(
    tmp_path: Path, clock: list[float]
) -> None:
    sync, source = Synced(), Source()
    load = measured_load(tmp_path, sync)
    await load.round(source, CLUSTER)
    assert len(source.asked) == 28
    assert (source.asked[0][0], source.asked[-1][1]) == (NOW // HOUR * HOUR - 28 * 86400, NOW // HOUR * HOUR)
    written = (tmp_path / "load.json").read_bytes()
    assert len(written) < 8192 * len(ROWS)
    clock[0] += 300
    await load.round(source, CLUSTER)
    assert len(source.asked) == 28
    clock[0] += HOUR
    await load.round(source, CLUSTER)
    assert source.asked[28:] == [(NOW // HOUR * HOUR, NOW // HOUR * HOUR + HOUR)]
    assert [len(profiles or ()) for profiles in sync.counted] == [5, 5]


async def test_later_daemon_goes_on_with_what_was_written(tmp_path: Path, clock: list[float]) -> None:
    load = measured_load(tmp_path)
    await load.round(Source(), CLUSTER)
    clock[0] += 2 * HOUR
    later, source = measured_load(tmp_path), Source()
    await later.read()
    await later.round(source, CLUSTER)
    assert len(source.asked) == 1
    profiles = [(await each.known(CLUSTER)).profiles for each in (load, later)]
    assert orjson.dumps(load_profiles.to_json(profiles[0])) == orjson.dumps(
        load_profiles.to_json(profiles[1])
    )


@pytest.mark.parametrize("content", ["{", '{"version": 1, "until": 0, "instances": {"vm1": {}}}'])
async def test_damaged_file_is_set_aside(tmp_path: Path, content: str) -> None:
    (tmp_path / "load.json").write_text(content)
    load = measured_load(tmp_path)
    await load.read()
    assert [path.name[:18] for path in tmp_path.iterdir()] == ["load.json.damaged-"]
    assert (await load.known(CLUSTER)).coverage == 0


@pytest.mark.parametrize(
    ("known", "least", "unused"),
    [
        (4, 80.0, None),
        (3, 80.0, "known for 60 % of the instances, expected 80 % (min_coverage)"),
        (3, 60.0, None),
    ],
)
async def test_load_is_used_if_enough_instances_are_covered(
    tmp_path: Path, clock: list[float], known: int, least: float, unused: str | None
) -> None:
    sync = Synced()
    load = measured_load(tmp_path, sync, min_coverage=least)
    source = Source(known)
    await load.round(source, CLUSTER)
    status = await load.status()
    assert (status["unused"], status["coverage"]) == (unused, 20.0 * known)
    assert status["missing"] == [row.name for row in ROWS[known:]]
    assert len(sync.counted) == (unused is None)
    source.errors, clock[0] = ["no answer"], clock[0] + 9 * 86400
    await load.round(source, CLUSTER)
    assert (await load.status())["unused"] == (unused or "last measured 9 days ago")
    assert unused or sync.counted[1:] == [None]


async def test_errors_are_told_until_the_source_answers_again(tmp_path: Path, clock: list[float]) -> None:
    load, source = measured_load(tmp_path), Source()
    source.errors = ["cpu: up: got no series"]
    await load.round(source, CLUSTER)
    assert (await load.status())["errors"] == source.errors
    source.errors = []
    await load.round(source, CLUSTER)
    assert (await load.status())["errors"] == []


@pytest.mark.parametrize(
    ("output", "error"),
    [
        ("vm1 1.5 536870912 1048576 0\\nother 1 1 1 1\\nvm2.example.com nan 0 0 0\\n", None),
        ("vm1 1.5", "line 1: got 'vm1 1.5'; expected INSTANCE CORES BYTES BYTES/S BYTES/S"),
        ("\\n", "line 1: got ''; expected INSTANCE CORES BYTES BYTES/S BYTES/S"),
        ("", "got no line of an instance; expected INSTANCE CORES BYTES BYTES/S BYTES/S"),
        (
            "vm1 1 1 1 1\\nvm1 1 1 1 1",
            "line 2: got a second line for vm1.example.com; expected one for each instance",
        ),
    ],
)
async def test_program_prints_a_line_for_each_instance(
    tmp_path: Path, output: str, error: str | None
) -> None:
    program = tmp_path / "load"
    program.write_text(f"#!/bin/sh\nprintf '{output}'\n")
    program.chmod(0o755)
    known = LoadSettings(source="program", program=str(program))
    expected = () if error is None else (f"{program}: {error}",)
    assert await errors_of_source(known, CLUSTER) == expected
    if error is None:
        found = (await LoadProgram(known).sample(LoadNames({"vm1": "vm1.example.com"}, {}))).instances
        assert found is not None
        assert found["vm1.example.com"].tolist() == FIGURES.tolist()


@pytest.mark.parametrize("xen", [True, False])
async def test_monitoring_daemons_measure_instances_on_xen_only(
    tmp_path: Path, clock: list[float], xen: bool
) -> None:
    data = {"vm1.example.com": 1.5} if xen else {"cpu_total": 3.0}
    name = "xen-cpu-avg-load" if xen else "cpu-avg-load"
    report = orjson.dumps({"name": name, "data": data})
    cluster = replace(CLUSTER, nodes=(Node("127.0.0.1", "", hypervisor="xen-pvm" if xen else "kvm"),))
    load = measured_load(tmp_path, source="mond", min_coverage=0.0)
    with http_server.serving(lambda handler: http_server.respond(handler, report)) as port:
        await load.round(MonitoringDaemons(load.settings, port), cluster)
    unused = (await load.status())["unused"]
    if xen:
        assert unused != "MonD measures the load of instances on Xen only"
        assert load.sample.instances is not None
        assert load.sample.instances["vm1.example.com"].tolist() == [1.5, 0, 0, 0]
    else:
        assert unused == "MonD measures the load of instances on Xen only"
        assert load.sample.nodes["127.0.0.1"][0] == 3.0


async def test_nothing_is_done_without_a_source(tmp_path: Path) -> None:
    load = measured_load(tmp_path, source="none")
    assert (load.on, load.why_unused) == (False, "[load] is off")
