"""Weekly profiles of instances, made from hours of measured load. Pure functions."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import Floats
from ganeti_htools.model.load import HOURS, LOAD_KINDS, LoadProfile
from htoolsd.load.figures import HOUR, LoadHours

DAY_HOURS = 24  # known hours from which on a profile counts
WEEKS = 4  # that make a profile
_SHARE = 0.5  # of the newest week in a profile; each older one has half of it
_NOTHING = np.zeros((len(LOAD_KINDS), HOURS))


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredInstance:
    """The profile of an instance, the weeks that each of its hours is made of, and the instance's UUID.

    Hours of no week are unknown.
    """

    profile: LoadProfile
    weeks: NDArray[np.uint8]
    uuid: str

    @property
    def counts(self) -> bool:
        """Whether enough hours are known."""
        return bool(np.count_nonzero(self.weeks) >= DAY_HOURS)

    def completed(self) -> LoadProfile:
        """Return the profile; unknown hours have the mean of the known ones."""
        known, old = self.weeks > 0, self.profile
        mean, peak = (np.where(known, each, each[:, known].mean(1)[:, None]) for each in (old.mean, old.peak))
        return LoadProfile(mean, peak, old.last)


def _unmeasured(row: Instance) -> MeasuredInstance:
    return MeasuredInstance(
        LoadProfile(_NOTHING, _NOTHING, _NOTHING[:, 0]), np.zeros(HOURS, np.uint8), row.uuid
    )


class KnownLoad(NamedTuple):
    """The profiles of the running instances, and the instances without one.

    ``coverage`` is the percentage of instances with a profile. ``nodes`` are :func:`.nodes_to_json`.
    """

    profiles: Mapping[str, LoadProfile]
    missing: tuple[str, ...]
    coverage: float
    nodes: Sequence[dict[str, Any]] = ()


def plausible(figures: Floats, vcpus: int) -> Floats:
    """Return load (by kind in the first axis) whose impossible figures are NaN.

    Impossible are negative and infinite figures, and more CPU than twice the VCPUs of the instance and a core
    (for the threads of the emulator).
    """
    most = np.full(len(LOAD_KINDS), np.inf)
    most[0] = 2 * vcpus + 1
    return np.where(
        (figures >= 0) & (figures < most.reshape((-1,) + (1,) * (figures.ndim - 1))), figures, np.nan
    )


def with_hours(
    measured: Mapping[str, MeasuredInstance], hours: LoadHours, instances: Iterable[Instance]
) -> dict[str, MeasuredInstance]:
    """Return the measured instances with at most 24 further hours, those of other instances dropped.

    A renamed instance keeps its profile. An hour with an unknown or impossible figure changes nothing.
    """
    former = {each.uuid: each for each in measured.values() if each.uuid}
    places = np.array([], np.int64)
    found = dict[str, MeasuredInstance]()
    for row in instances:
        old = measured.get(row.name) or former.get(row.uuid) or _unmeasured(row)
        mean, peak = (each.get(row.name) for each in (hours.mean, hours.peak))
        if mean is None or peak is None:
            found[row.name] = old
            continue
        if len(places) != mean.shape[1]:
            places = np.array([hour_of_week(hours.begin + HOUR * each) for each in range(mean.shape[1])])
        mean, peak = plausible(mean, row.vcpus), plausible(peak, row.vcpus)
        known = ~np.isnan(mean + peak).any(0)
        found[row.name] = _with_known(old, places[known], mean[:, known], peak[:, known])
    return found


def _with_known(
    old: MeasuredInstance, places: NDArray[np.int64], mean: Floats, peak: Floats
) -> MeasuredInstance:
    weeks = old.weeks.copy()
    share = np.maximum(1 / (1.0 + weeks[places]), _SHARE)
    weeks[places] = np.minimum(weeks[places], WEEKS - 1) + 1

    def mixed(before: Floats, new: Floats) -> Floats:
        after = before.copy()
        after[:, places] += (new - before[:, places]) * share
        return after

    was = old.profile
    profile = replace(was, mean=mixed(was.mean, mean), peak=mixed(was.peak, peak))
    return replace(old, profile=profile, weeks=weeks)


def hour_of_week(moment: float) -> int:
    """Return the hour of the week, in local time, of seconds of the epoch. The first is Monday's at 0:00."""
    local = time.localtime(moment)
    return local.tm_wday * 24 + local.tm_hour


def with_last(
    measured: Mapping[str, MeasuredInstance], sample: Mapping[str, Floats], instances: Iterable[Instance]
) -> tuple[dict[str, MeasuredInstance], list[str]]:
    """Return the measured instances with the last figures, and the instances with impossible figures."""
    found, wrong = dict(measured), list[str]()
    for row in instances:
        if row.name in sample:
            old = found.get(row.name) or _unmeasured(row)
            figures = plausible(sample[row.name], row.vcpus)
            wrong += [row.name] * bool((np.isnan(figures) > np.isnan(sample[row.name])).any())
            last = np.where(np.isnan(figures), old.profile.last, figures)
            found[row.name] = replace(old, profile=replace(old.profile, last=last))
    return found, wrong


def known_load(measured: Mapping[str, MeasuredInstance], instances: Iterable[Instance]) -> KnownLoad:
    """Return the profiles of the running instances."""
    running = [row.name for row in instances if row.uses_memory]
    known = [name for name in running if name in measured and measured[name].counts]
    missing = sorted({*running} - {*known})
    coverage = 100.0 * len(known) / len(running) if running else 100.0
    return KnownLoad({name: measured[name].completed() for name in known}, tuple(missing), coverage)
