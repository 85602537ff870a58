"""Sums of measured load by hour of the week: what nodes have to carry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganeti_htools.model.columns import Floats
from ganeti_htools.model.load import LOAD_KINDS, LoadProfile

Loads = NDArray[np.int32]  # in the units of the load's kind

# Load is counted in whole units, so that sums are exact: thousandths of a core, MiB, KiB/s.
UNITS = {"cpu": 1000.0, "mem": 1.0, "dsk": 1024.0, "net": 1024.0}
BLOCK = 1 << 17  # figures in one computation, so that they stay in the processor's cache


class HourSums:
    """Sums of load by hour of the week, for nodes or candidates: a column whose entries have hours.

    It is indexed and broadcast like the columns of figures beside it. ``terms`` are arrays with the hours as
    the last axis, added up when they are needed.
    """

    __slots__ = ("terms",)

    def __init__(self, *terms: Loads) -> None:
        self.terms = terms

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape without hours."""
        return np.broadcast_shapes(*(term.shape for term in self.terms))[:-1]

    @property
    def ndim(self) -> int:
        """The number of axes without hours."""
        return len(self.shape)

    @property
    def sums(self) -> Loads:
        """The sums, with the hours as the last axis."""
        return reduce(np.add, self.terms)

    def __len__(self) -> int:
        return self.shape[0]

    def __add__(self, other: "HourSums") -> "HourSums":
        return HourSums(*self.terms, *other.terms)

    def __sub__(self, other: "HourSums") -> "HourSums":
        return HourSums(*self.terms, *(-term for term in other.terms))

    def __getitem__(self, index: Any) -> "HourSums":
        if isinstance(index, tuple) and Ellipsis in index:
            index = (*index, slice(None))
        if len(self.terms) == 1:
            return HourSums(self.terms[0][index])
        wide = np.broadcast_arrays(*self.terms)
        return HourSums(*(term[index] for term in wide))

    def __setitem__(self, index: Any, other: "HourSums") -> None:
        (mine,) = self.terms
        mine[index] = other.sums

    def copy(self) -> "HourSums":
        """Return a copy that can be changed."""
        return HourSums(self.sums.copy())

    def worst(self) -> Loads:
        """Return the highest sum of any hour, of each entry."""
        shape = self.shape
        rows = max(1, BLOCK // max(1, prod(shape[1:]) * self.terms[0].shape[-1]))
        if not shape or len(self) <= rows:
            return np.asarray(self.sums.max(axis=-1))
        found = np.empty(shape, np.int32)
        for start in range(0, len(self), rows):
            block = slice(start, start + rows)
            some = [term[block] if term.ndim > len(shape) and len(term) > 1 else term for term in self.terms]
            reduce(np.add, some).max(axis=-1, out=found[block])
        return found


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredLoads:
    """The load of all instances by hour of the week: the 95th percentiles (kinds by instances by hours).

    ``kinds`` are those of any load. ``typical`` is the median per virtual CPU (kinds by hours), which
    instances without a profile count with.
    """

    kinds: tuple[str, ...]
    hours: Loads
    typical: Floats

    def of(self, index: int, vcpus: int) -> tuple[HourSums, ...]:
        """Return the load of an instance (row), or of a new one (a negative row) with so many CPUs."""
        load = self.hours[:, index] if index >= 0 else np.rint(self.typical * vcpus).astype(np.int32)
        return tuple(map(HourSums, load))

    def take(self, rows: Any) -> tuple[HourSums, ...]:
        """Return the load of some instances (rows)."""
        return tuple(HourSums(load[rows]) for load in self.hours)

    def part(self, rows: Any) -> "MeasuredLoads":
        """Return the loads of some instances (rows) only."""
        return replace(self, hours=self.hours[:, rows])

    def followed_by(self, load: Sequence[Loads], number: int) -> "MeasuredLoads":
        """Return these loads, and as many more of new instances with this load (an array for each kind)."""
        more = np.repeat(np.array(load)[:, np.newaxis], number, axis=1)
        return replace(self, hours=np.concatenate([self.hours, more], axis=1))


def measured_loads(
    profiles: Mapping[str, LoadProfile] | None, names: Sequence[str], vcpus: Sequence[int], active: Any
) -> MeasuredLoads | None:
    """Compute the loads of instances; None without any. Only ``active`` ones have load."""
    known = [profiles.get(name) for name in names] if profiles else []
    some = [(row, profile) for row, profile in enumerate(known) if profile]
    if not some:
        return None
    units = np.array([UNITS[kind] for kind in LOAD_KINDS])[:, np.newaxis]
    rows, cpus = [row for row, _ in some], np.array(vcpus)
    measured = np.stack([profile.peak * units for _, profile in some])
    typical = np.median(measured / np.maximum(cpus[rows], 1)[:, np.newaxis, np.newaxis], axis=0)
    hours = cpus[:, np.newaxis, np.newaxis] * typical
    hours[rows] = measured
    hours = np.rint(hours * np.asarray(active)[:, np.newaxis, np.newaxis]).astype(np.int32).swapaxes(0, 1)
    used = hours.any(axis=(1, 2))
    if not used.any():
        return None
    kinds = tuple(kind for kind, loaded in zip(LOAD_KINDS, used.tolist(), strict=True) if loaded)
    return MeasuredLoads(kinds, np.ascontiguousarray(hours[used]), typical[used])
