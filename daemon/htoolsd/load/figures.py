"""Load as sources report it. Unknown figures are NaN; each row of arrays is one kind of load."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import NamedTuple, Protocol

import numpy as np

from ganeti_htools import machine
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Floats
from ganeti_htools.model.load import LOAD_KINDS

HOUR = 3600  # seconds
MIB = float(1 << 20)
SCALE = (1.0, MIB, MIB, MIB)  # from what sources report (cores, bytes, bytes/s) to what profiles have
UNKNOWN = np.full(len(LOAD_KINDS), nan)


class LoadSample(NamedTuple):
    """Load at one moment by name: arrays by kind of load. Without ``instances`` only nodes are measured.

    ``pressure`` is the highest share of time that work of a node waits for CPU, memory or disk. ``errors``
    are lines about nodes.
    """

    instances: Mapping[str, Floats] | None
    nodes: Mapping[str, Floats]
    pressure: Mapping[str, float]
    errors: tuple[str, ...] = ()


class LoadHours(NamedTuple):
    """The mean and the 95th percentile of hours, by instance: arrays by kind of load and hour.

    The first hour begins at ``begin`` (seconds of the epoch).
    """

    begin: float
    mean: Mapping[str, Floats]
    peak: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class LoadNames:
    """The instances and nodes of a cluster, by their names up to each dot where these are unique.

    ``xen``: instances run on Xen.
    """

    instances: Mapping[str, str]
    nodes: Mapping[str, str]
    xen: bool = False


def names_of(cluster: Cluster) -> LoadNames:
    """Index the names of a cluster."""
    xen = any((node.hypervisor or "").startswith("xen") for node in cluster.nodes)
    return LoadNames(
        _index(row.name for row in cluster.instances), _index(node.name for node in cluster.nodes), xen
    )


def _index(names: Iterable[str]) -> dict[str, str]:
    whole, found = {name: name for name in names}, dict[str, str]()
    for name in whole:
        parts = name.split(".")
        for length in range(1, len(parts)):
            short = ".".join(parts[:length])
            found[short] = "" if short in found else name
    return {short: name for short, name in found.items() if name} | whole


class LoadError(Exception):
    """Errors of a source, a line each."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__(lines[0])
        self.lines = lines


class LoadSource(Protocol):
    """A source of measured load. Raises LoadError."""

    async def sample(self, names: LoadNames) -> LoadSample:
        """Return the present load."""

    async def hours(self, names: LoadNames, begin: float, end: float) -> LoadHours:
        """Return the hours from ``begin`` to ``end``, seconds of the epoch, whole hours."""


class SampledHours:
    """The hours of a source without history, made from its samples."""

    def __init__(self) -> None:
        self._samples = list[tuple[float, Mapping[str, Floats]]]()

    def add(self, time: float, instances: Mapping[str, Floats]) -> None:
        """Keep a sample."""
        self._samples.append((time, instances))

    async def hours(self, _names: LoadNames, begin: float, end: float) -> LoadHours:
        """Return the hours from ``begin`` to ``end``, and forget their samples."""
        samples, self._samples = self._samples, [each for each in self._samples if each[0] >= end]
        return await machine.run_sync(_hours, samples, begin, end)


def _hours(samples: Sequence[tuple[float, Mapping[str, Floats]]], begin: float, end: float) -> LoadHours:
    """Compute the mean and the 95th percentile of the samples of each hour."""
    count = round((end - begin) / HOUR)
    by_hour = dict[str, list[list[Floats]]]()
    for time, instances in samples:
        if begin <= time < end:
            for name, figures in instances.items():
                hours = by_hour.setdefault(name, [[] for _ in range(count)])
                hours[int((time - begin) // HOUR)].append(figures)
    mean, peak = dict[str, Floats](), dict[str, Floats]()
    for name, hours in by_hour.items():
        of_hours = [np.array(each or [UNKNOWN]) for each in hours]
        mean[name] = np.array([each.mean(0) for each in of_hours]).T
        peak[name] = np.array([np.percentile(each, 95, axis=0) for each in of_hours]).T
    return LoadHours(begin, mean, peak)
