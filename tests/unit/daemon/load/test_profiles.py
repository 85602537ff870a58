"""Weekly profiles from hours of measured load."""

import time
from collections.abc import Iterable

import numpy as np
import pytest

from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.columns import Floats
from ganeti_htools.model.types import Status
from htoolsd.load.figures import HOUR, LoadHours, SampledHours, names_of
from htoolsd.load.profiles import MeasuredInstance, hour_of_week, known_load, plausible, with_hours, with_last

DAY = 24 * HOUR
MONDAY = time.mktime((2026, 3, 2, 0, 0, 0, 0, 0, -1))  # in local time


def instance(name: str, vcpus: int = 2, status: Status = Status.RUNNING, uuid: str = "") -> Instance:
    return Instance(name, 1024, 0, (), vcpus, status, pnode="node1", uuid=uuid)


def flat(cpu: float, hours: int = 24) -> Floats:
    return np.tile([[cpu], [512.0], [1.0], [0.0]], hours)


def days(name: str, figures: Iterable[float], row: Instance | None = None) -> MeasuredInstance:
    """Measure an instance for a Monday of each week with these cores."""
    measured = dict[str, MeasuredInstance]()
    for week, cpu in enumerate(figures):
        hours = LoadHours(MONDAY + week * 7 * DAY, {name: flat(cpu)}, {name: flat(cpu)})
        measured = with_hours(measured, hours, [row or instance(name)])
    return measured[name]


def test_hours_of_the_week_begin_on_monday_in_local_time() -> None:
    assert [hour_of_week(MONDAY + hours * HOUR) for hours in (0, 23, 7 * 24 - 1)] == [0, 23, 167]


@pytest.mark.parametrize(
    ("weeks", "mean"), [([1.0], 1.0), ([1.0, 2.0], 1.5), ([1.0, 2.0, 2.0], 1.75), ([1.0] * 9 + [2.0], 1.5)]
)
def test_newest_week_weighs_half_and_each_older_one_half_of_it(weeks: list[float], mean: float) -> None:
    found = days("web", weeks)
    assert found.profile.mean[0, :24] == pytest.approx([mean] * 24)
    assert found.weeks[:24].tolist() == [min(len(weeks), 4)] * 24
    assert not found.weeks[24:].any()


def test_unknown_hours_of_a_profile_have_the_mean_of_the_known_ones() -> None:
    profile = days("web", [1.5]).completed()
    assert profile.mean[0].tolist() == profile.peak[0].tolist() == [1.5] * 168


@pytest.mark.parametrize("wrong", [np.nan, -0.1, np.inf, 20.0])
def test_impossible_figure_leaves_its_hour_as_it_was(wrong: float) -> None:
    """20 cores are ten times the VCPUs: probably a percentage."""
    before, hours = {"web": days("web", [1.0])}, flat(1.5)
    hours[0, 3] = wrong
    after = with_hours(before, LoadHours(MONDAY, {"web": hours}, {"web": hours}), [instance("web")])["web"]
    assert after.profile.mean[0, 2:5].tolist() == [1.25, 1.0, 1.25]
    assert after.weeks[2:5].tolist() == [2, 1, 2]


def test_a_core_more_than_twice_the_vcpus_is_the_limit_of_what_is_possible() -> None:
    assert plausible(np.array([4.9, 1.0, 0.0, 0.0]), 2)[0] == 4.9
    assert np.isnan(plausible(np.array([5.0, 1.0, 0.0, 0.0]), 2)).tolist() == [True, False, False, False]


def test_renamed_instance_keeps_its_profile_and_a_removed_one_has_none() -> None:
    measured = {name: days(name, [1.0], instance(name, uuid=name)) for name in ("web", "db")}
    nothing = LoadHours(MONDAY, {}, {})
    found = with_hours(measured, nothing, [instance("www", uuid="web")])
    assert found == {"www": measured["web"]}


def test_load_is_known_of_running_instances_with_a_day_of_hours() -> None:
    young = with_hours({}, LoadHours(MONDAY, {"new": flat(1, 23)}, {"new": flat(1, 23)}), [instance("new")])
    measured = {"web": days("web", [1.0]), "off": days("off", [1.0]), **young}
    rows = [instance("web"), instance("new"), instance("other"), instance("off", status=Status.DOWN)]
    known = known_load(measured, rows)
    assert (list(known.profiles), known.missing) == (["web"], ("new", "other"))
    assert known.coverage == pytest.approx(100 / 3)


def test_last_figures_are_those_that_are_possible() -> None:
    first, _ = with_last({}, {"web": np.array([1.0, 512.0, 0.0, 0.0])}, [instance("web")])
    found, wrong = with_last(first, {"web": np.array([99.0, 600.0, 0.0, np.nan])}, [instance("web")])
    assert (found["web"].profile.last.tolist(), wrong) == ([1.0, 600.0, 0.0, 0.0], ["web"])


async def test_hours_of_samples_have_mean_and_95th_percentile() -> None:
    samples = SampledHours()
    for minute in range(60):
        samples.add(MONDAY + minute * 60, {"web": np.array([float(minute), 512.0, 0.0, 0.0])})
    samples.add(MONDAY + HOUR, {"web": np.zeros(4)})
    cluster = Cluster(nodes=(Node("node1", ""),), instances=(instance("web"),))
    hours = await samples.hours(names_of(cluster), MONDAY - HOUR, MONDAY + HOUR)
    assert np.isnan(hours.mean["web"][:, 0]).all()
    assert hours.mean["web"][0, 1] == pytest.approx(29.5)
    assert hours.peak["web"][0, 1] == pytest.approx(56.05)
    assert (await samples.hours(names_of(cluster), MONDAY, MONDAY + HOUR)).mean == {}


def test_names_may_be_cut_off_where_they_are_unique() -> None:
    names = ("web.a.example.com", "web.b.example.com", "db.a.example.com", "db.a")
    found = names_of(Cluster(instances=tuple(map(instance, names)), nodes=(Node("n1.x", ""),))).instances
    assert {short: found.get(short) for short in ("web", "web.a", "db", "db.a", "db.a.example")} == {
        "web": None,
        "web.a": "web.a.example.com",
        "db": None,
        "db.a": "db.a",
        "db.a.example": "db.a.example.com",
    }
