"""The sizes of an instance that find a place on a state when it is made smaller unit by unit until one does.

Sizes may have many thousand units, but a verdict changes rarely on the way. A rule about one amount refuses
with the one reason that is about it. So a size is too large for a candidate until some smaller size, and
never again from there on, as long as policies see no difference. Where a size and a much smaller one have the
same verdict, so have all between them: bisection finds where a verdict ends.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.allocation.solution import PATIENCE
from ganeti_htools.engine.capacity.scope import AllocationScope, on_all_pairs
from ganeti_htools.engine.capacity.verdicts import SizeVerdicts
from ganeti_htools.engine.redundancy.assessment import Assessment
from ganeti_htools.engine.redundancy.simulate import NewInstances
from ganeti_htools.engine.rules.class_limits import limits_by_reason
from ganeti_htools.engine.rules.pools import limits_amounts
from ganeti_htools.model.columns import Bools, Ints
from ganeti_htools.model.instance_kinds import SHRINKS, UNIT, InstanceKind, InstanceSize
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail

Failures = dict[Fail, int]

# The names that policies have for the amounts of a size.
BOUNDED = {
    Fail.MEM: "memory_size",
    Fail.DISK: "disk_size",
    Fail.CPU: "cpu_count",
    Fail.SPINDLES: "spindle_use",
}

AHEAD = 64  # at most so many sizes are simulated in one batch
PROBES = 16  # at most so many sizes between two that differ get a verdict in one go


@dataclass(frozen=True, slots=True)
class SizeRun:
    """Sizes that were tried in vain for the same reasons.

    The first is ``largest``, each other one is smaller by the most frequent reason; ``number`` in all.
    """

    largest: InstanceSize
    failures: Failures
    number: int = 1

    def __getitem__(self, at: int) -> InstanceSize:
        return self.largest.less(worst(self.failures), at) if at else self.largest


def by_frequency(failures: Failures) -> list[Fail]:
    """Reasons, the most frequent first, of equal ones the last. (``failures`` are in the order of Fail.)"""
    latest_first = list(failures)[::-1]
    return sorted(latest_first, key=failures.__getitem__, reverse=True)


def worst(failures: Failures) -> Fail:
    """The most frequent reason, of equal ones the last."""
    return max(reversed(failures), key=failures.__getitem__)


class Shrinking:
    """The sizes that fit on a state, which must not change; ``assessment`` is that of the state if known."""

    def __init__(
        self, state: State, kind: InstanceKind, scope: AllocationScope, assessment: Assessment | None = None
    ) -> None:
        self.state, self.kind, self.scope, self._assessment = state, kind, scope, assessment
        self.verdicts = SizeVerdicts(state, kind, scope)
        self.takes_disk = state.requested_instance(kind.instance(InstanceSize(1, 1, 1))).local or bool(
            self.verdicts.pools
        )
        pairs = [pair for policy in state.policies for pair in policy.minmax]
        # From these amounts on, policies and nodes may refuse other sizes.
        self.bounds = {
            fail: [getattr(pair.min, name) for pair in pairs]
            + [getattr(pair.max, name) + 1 for pair in pairs]
            for fail, name in BOUNDED.items()
        }
        self.limited = bool(state.columns.shape.limited)
        # Nodes or pools may refuse any size that is smaller by these.
        self.in_steps = {Fail.DISK} if limits_amounts(state.cluster) else set[Fail]()
        for fail, (least, most, step) in limits_by_reason(state.columns):
            if (step > 1).any():
                self.in_steps.add(fail)
            self.bounds[fail] += [*least.tolist(), *(most + 1).tolist()]
        self.runs: dict[tuple[InstanceSize, Fail], int] = {}
        self.places: dict[InstanceSize, bool] = {}
        self.ends: dict[tuple[InstanceSize, Fail], tuple[InstanceSize | None, list[InstanceSize] | None]] = {}
        self.floor = [
            min((getattr(pair.min, BOUNDED[fail]) for pair in pairs), default=0)
            for fail in (Fail.MEM, Fail.DISK, Fail.CPU)
        ]
        self.ahead = 2
        self.ruled_out: list[InstanceSize] = []
        self.not_ruled_out: list[InstanceSize] = []

    @property
    def assessment(self) -> Assessment:
        if self._assessment is None:
            self._assessment = self.scope.assess(self.state)
        return self._assessment

    def infeasible(self, size: InstanceSize) -> bool:
        """Whether there is certainly no place, or none with which every node can be lost if it has to."""
        return not self.verdicts.of(size)[0].fits or self.is_ruled_out(size)

    def failed(self, size: InstanceSize) -> SizeRun | None:
        """A size without a place, and the smaller ones that are infeasible for the same reasons.

        None if the size may have a place.
        """
        (verdict,) = self.verdicts.of(size)
        failures = verdict.failures | {Fail.N1: verdict.failures[Fail.N1] + verdict.fits}
        fail = worst(failures)
        if self.infeasible(size):
            return SizeRun(size, failures, self._run(size, fail))
        mirrored = self.kind.mirrored
        if self.scope.guards(mirrored) and (mirrored or verdict.fits < PATIENCE) and not self.has_place(size):
            run = SizeRun(size, failures, 1 + self.indifferent_steps(size, fail))
            if smaller := run[run.number - 1].smaller(fail):
                self.look_ahead(smaller, fail)
            return run
        return None

    def _run(self, size: InstanceSize, fail: Fail) -> int:
        """The number of sizes in a row, each smaller by ``fail``, that are infeasible with one verdict."""
        if (size, fail) not in self.runs:
            (verdict,) = self.verdicts.of(size)

            def alike(steps: list[int]) -> list[bool]:
                return [
                    each == verdict for each in self.verdicts.of(*(size.less(fail, step) for step in steps))
                ]

            def ruled_out(steps: list[int]) -> list[bool]:
                return [self.is_ruled_out(size.less(fail, step)) for step in steps]

            end = _reach(self.free_steps(size, fail), alike)
            if verdict.fits and end and not self.is_ruled_out(size.less(fail, end)):
                end = _reach(end - 1, ruled_out)
            self.runs[size, fail] = end + 1
        return self.runs[size, fail]

    def free_steps(self, size: InstanceSize, fail: Fail) -> int:
        """The number of times it can be made smaller before policies or nodes may see a difference."""
        if fail not in UNIT or fail in self.in_steps:
            return 0
        amount: int = getattr(size, SHRINKS[fail])
        bound = max((bound for bound in self.bounds[fail] if bound <= amount), default=0)
        return min(size.steps(fail), (amount - bound) // UNIT[fail])

    def indifferent_steps(self, size: InstanceSize, fail: Fail) -> int:
        """The number of times it can be made smaller by disk that no node or pool has to give it."""
        return 0 if self.takes_disk or fail is not Fail.DISK else self.free_steps(size, fail)

    def is_ruled_out(self, size: InstanceSize) -> bool:
        """Whether bounds prove that each place makes some loss fatal, if redundancy is asked for.

        Then it is so for larger sizes, unless nodes limit amounts: a size that no other node takes need not
        come back.
        """
        if not self.scope.guards(self.kind.mirrored):
            return False
        if not self.limited and any(known.holds(size) for known in self.not_ruled_out):
            return False
        if not self.limited and any(size.holds(known) for known in self.ruled_out):
            return True
        asked = self.state.requested_instance(self.kind.instance(size))
        places = self.verdicts.at_best(size).places or self.verdicts.all_pairs()
        found = self.assessment.bounds.rule_out(asked, *places)
        (self.ruled_out if found else self.not_ruled_out).append(size)
        return found

    def hopeless(self, size: InstanceSize) -> bool:
        """Whether no size that is at least as large in everything has a place, whatever policies allow."""
        mem, dsk, vcpus = (
            max(pair) for pair in zip((size.mem, size.dsk, size.vcpus), self.floor, strict=True)
        )
        least = replace(size, mem=mem, dsk=dsk, vcpus=vcpus)
        return not self.verdicts.at_best(least).fits or self.is_ruled_out(least)

    def sidestep(self, run: SizeRun) -> tuple[int, InstanceSize] | None:
        """The last size of a run that another amount keeps from a redundant place, and the size that has one.

        The position in the run is given, and the first size with a place that is smaller by its most frequent
        reason, or else by the next. The least that a size can have is not tried: so do Ganeti's htools.
        """
        found: tuple[int, InstanceSize] | None = None
        indifferent = self.indifferent_steps(run.largest, worst(run.failures))
        for fail in by_frequency(run.failures):
            at = run.number - 1 if run.failures[fail] else -1
            while at > (found[0] if found else -1):
                smaller = run[at].smaller(fail)
                if smaller is None:
                    break
                end, seen = self._end(smaller, fail)
                if end is not None:
                    found = at, end
                elif fail is worst(run.failures) or indifferent >= at:
                    break  # the sizes before it come to the same end
                at -= 1 + self._alike(run, at, seen)
        return found

    def _alike(self, run: SizeRun, at: int, seen: list[InstanceSize] | None) -> int:
        """The number of sizes before one of a run where all sizes ``seen`` failed, with the same verdicts."""
        if seen is None:
            return 0
        known, fail = self.verdicts.of(*seen), worst(run.failures)

        def alike(steps: list[int]) -> list[bool]:
            return [self.verdicts.of(*(size.less(fail, -step) for size in seen)) == known for step in steps]

        return _reach(at, alike)

    def _end(self, size: InstanceSize, fail: Fail) -> tuple[InstanceSize | None, list[InstanceSize] | None]:
        """The first size with a place as long as ``fail`` keeps candidates off.

        Also the first and last of infeasible runs on the way, None if other sizes were tried.
        """
        if self.hopeless(size.least(fail)):
            return None, []
        starts: list[InstanceSize] = []
        seen: list[InstanceSize] | None = []
        end = None
        while size.steps(fail):
            if (size, fail) in self.ends:
                end, rest = self.ends[size, fail]
                seen = None if seen is None or rest is None else seen + rest
                break
            starts.append(size)
            last = size
            if self.infeasible(size):
                last = size.less(fail, self._run(size, fail) - 1)
                seen = None if seen is None else [*seen, size, last]
            else:
                self.look_ahead(size, fail)
                seen = None
                if self.has_place(size):
                    end = size
                    break
                last = size.less(fail, self.indifferent_steps(size, fail))
            if not self.verdicts.of(size)[0].failures[fail] or not last.steps(fail):
                break
            size = last.less(fail, 1)
        for number, start in enumerate(starts):
            self.ends[start, fail] = end, None if seen is None else seen[2 * number :]
        return end, seen

    def has_place(self, size: InstanceSize) -> bool:
        """Whether a size that fits has a place with which every node can be lost, if that is asked for."""
        if not self.scope.options.capacity:
            return True
        if size not in self.places:
            self.places[size] = self._has_redundant_place(size)
        return self.places[size]

    def _has_redundant_place(self, size: InstanceSize) -> bool:
        places = self.verdicts.of(size)[0].places
        asked = self.state.requested_instance(self.kind.instance(size))
        if places is not None:
            found = self._survives_on(asked, *places)
            if not found or not asked.mirrored or len(places[0]) <= PATIENCE:
                return found
        found_by_hail = on_all_pairs(self.state, asked, self.scope, self.assessment)
        return any(solution.trial is not None for solution in found_by_hail)

    def look_ahead(self, size: InstanceSize, fail: Fail) -> None:
        """Simulate a size and the next ones, smaller by ``fail``, in one batch."""
        if size in self.places or not self.scope.options.capacity:
            return
        sizes = [size.less(fail, units) for units in range(min(self.ahead, size.steps(fail) + 1))]
        verdicts = dict(zip(sizes, self.verdicts.of(*sizes), strict=True))
        found = {
            size: verdict.places
            for size, verdict in verdicts.items()
            if verdict.fits and verdict.places and size not in self.places
        }
        if not found:
            return
        new = NewInstances(
            [self.state.requested_instance(self.kind.instance(size)) for size in found],
            np.repeat(np.arange(len(found)), [len(places.primaries) for places in found.values()]),
            *map(np.concatenate, zip(*found.values(), strict=True)),
        )
        left = np.bincount(new.which[~self.assessment.refuted(new)], minlength=len(found))
        self.places.update(
            (size, False) for size, number in zip(found, left.tolist(), strict=True) if not number
        )
        self.ahead = 2 if left.any() else min(2 * self.ahead, AHEAD)

    def _survives_on(self, asked: RequestedInstance, primaries: Ints, secondaries: Ints) -> bool:
        """Whether every node can be lost with an instance on one of these candidates (rows)."""
        assessment, mirrored = self.assessment, asked.mirrored
        everyone = np.arange(len(self.state.group))
        if mirrored:
            left: Bools = assessment.admissible(asked, everyone, everyone)[primaries, secondaries]
        else:
            left = assessment.admissible(asked, primaries, None)
        while left.any():
            primaries, secondaries = primaries[left], secondaries[left]
            left = ~assessment.refuted(NewInstances.of(asked, primaries, secondaries))
            if left.any():
                first = int(left.argmax())
                if assessment.survives(asked, int(primaries[first]), int(secondaries[first])):
                    return True
                left[first] = False
        return False


def _reach(end: int, holds: Callable[[list[int]], list[bool]]) -> int:
    """The last of the numbers up to ``end`` for which something holds.

    It holds for 0, and never again once it does not. ``holds`` answers for several numbers in order.
    """
    low, high = 0, end + 1
    probes = [*(1 << power for power in range(end.bit_length())), end]
    while high - low > 1:
        for probe, good in zip(probes, holds(probes), strict=True):
            if not good:
                high = probe
                break
            low = probe
        probes = list(range(low + 1, high, max(1, (high - low) // PROBES)))
    return low
