"""Which sizes of an instance find a place on a state, when it is made smaller unit by unit until one does.

Sizes may have many thousand units, but a verdict changes rarely on the way. A rule that has to do with one
amount refuses with the one reason that is about it, so what is made smaller is for each candidate too much
until some size, and never again from there on, as long as policies see no difference. So where a size and a
much smaller one have the same verdict, so have all between them.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ganeti_htools.engine.allocation.solution import PATIENCE
from ganeti_htools.engine.capacity.redundant_pairs import has_pair, without_pair
from ganeti_htools.engine.capacity.site import Site, on_all_pairs
from ganeti_htools.engine.capacity.sizes import BOUNDED, SizeRun, ranked, worst
from ganeti_htools.engine.capacity.verdicts import Pairs, Verdicts
from ganeti_htools.engine.redundancy.global_n1 import Redundancy
from ganeti_htools.engine.rules import placements
from ganeti_htools.model.columns import NOWHERE, Ints
from ganeti_htools.model.instance_kinds import SHRINKS, UNIT, InstanceKind, InstanceSize
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail

PROBES = 16  # sizes between two that differ are looked at in one go, at most
AHEAD = 128  # sizes of which redundancy is looked at in one go, at most


class Shrinking:
    """Which sizes fit on a state; the state must not change.

    ``redundancy`` is what holds of it, if it is known.
    """

    def __init__(
        self, state: State, kind: InstanceKind, site: Site, redundancy: Redundancy | None = None
    ) -> None:
        self.state, self.kind, self.site, self._redundancy = state, kind, site, redundancy
        self.verdicts = Verdicts(state, kind, site)
        self.takes_disk = state.requested_instance(kind.instance(InstanceSize(1, 1, 1))).local or bool(
            self.verdicts.pools
        )
        pairs = [pair for policy in state.policies for pair in policy.minmax]
        # From these amounts on, policies may say something else.
        self.bounds = {
            fail: [getattr(pair.min, name) for pair in pairs]
            + [getattr(pair.max, name) + 1 for pair in pairs]
            for fail, name in BOUNDED.items()
        }
        self.floor = [
            min((getattr(pair.min, BOUNDED[fail]) for pair in pairs), default=0)
            for fail in (Fail.MEM, Fail.DISK, Fail.CPU)
        ]
        self.runs: dict[tuple[InstanceSize, Fail], int] = {}
        self.places: dict[InstanceSize, bool] = {}
        self.ends: dict[tuple[InstanceSize, Fail], tuple[InstanceSize | None, list[InstanceSize] | None]] = {}
        self.ruled_out: list[InstanceSize] = []
        self.not_ruled_out: list[InstanceSize] = []
        self.suspects: list[int] = []
        self.ahead = 2
        self.unfit: list[InstanceSize] = []
        self.hopeful: set[InstanceSize] = set()
        self.foreseen: set[InstanceSize] = set()

    @property
    def redundancy(self) -> Redundancy:
        """What holds of the state."""
        if self._redundancy is None:
            self._redundancy = self.site.redundancy(self.state)
        return self._redundancy

    def barren(self, size: InstanceSize) -> bool:
        """Whether there is certainly no place, or none that leaves the whole redundant, if it has to."""
        return not self.verdicts.of(size)[0].fits or self._ruled_out(size)

    def failed(self, size: InstanceSize) -> SizeRun | None:
        """A size that has no place, and the smaller ones that are barren for the same reasons.

        None if it may have one.
        """
        (verdict,) = self.verdicts.of(size)
        failures = verdict.failures | {Fail.N1: verdict.failures[Fail.N1] + verdict.fits}
        fail = worst(failures)
        if self.barren(size):
            return SizeRun(size, failures, self._run(size, fail))
        mirrored = self.kind.mirrored
        if self.site.guards(mirrored) and (mirrored or verdict.fits < PATIENCE) and not self._has_place(size):
            run = SizeRun(size, failures, 1 + self._indifferent(size, fail))
            if (smaller := run[run.number - 1].smaller(fail)) is not None:
                self._look_ahead(smaller, fail)
            return run
        return None

    def _look_ahead(self, size: InstanceSize, fail: Fail) -> None:
        """Look at a size and the next ones together: which have no redundant pair, or what they change."""
        if size in self.foreseen or not self.site.options.capacity:
            return
        sizes = [size.less(fail, units) for units in range(min(self.ahead, size.steps(fail) + 1))]
        verdicts = self.verdicts.of(*sizes)
        lacking = [verdict.failures[fail] > 0 for verdict in verdicts]
        if not all(lacking):  # nothing smaller will be looked at
            sizes = sizes[: lacking.index(False) + 1]
        self.foreseen.update(sizes)
        found = {
            size: verdict
            for size, verdict in zip(sizes, verdicts, strict=False)
            if verdict.fits and size not in self.places
        }
        asked = [self.state.requested_instance(self.kind.instance(size)) for size in found]
        few = [verdict.pairs for verdict in found.values() if verdict.pairs is not None]
        if few:
            none = without_pair(self.state, asked, few, self.redundancy, self.suspects)
            self.places.update((size, False) for size, failed in zip(found, none, strict=True) if failed)
        elif not self.kind.mirrored:
            self.redundancy.learn(asked)
        self.ahead = 2 if few and not none.any() else min(2 * self.ahead, AHEAD)

    def _run(self, size: InstanceSize, fail: Fail) -> int:
        """How many sizes in a row, each made smaller by ``fail``, are barren and have one verdict."""
        if (size, fail) not in self.runs:
            (verdict,) = self.verdicts.of(size)

            def alike(steps: list[int]) -> list[bool]:
                return [
                    each == verdict for each in self.verdicts.of(*(size.less(fail, step) for step in steps))
                ]

            def ruled_out(steps: list[int]) -> list[bool]:
                return [self._ruled_out(size.less(fail, step)) for step in steps]

            end = _reach(self._free_steps(size, fail), alike)
            if verdict.fits and end and not self._ruled_out(size.less(fail, end)):
                end = _reach(end - 1, ruled_out)
            self.runs[size, fail] = end + 1
        return self.runs[size, fail]

    def _free_steps(self, size: InstanceSize, fail: Fail) -> int:
        """How often it can be made smaller before a policy may say something else."""
        if fail not in UNIT:
            return 0
        amount: int = getattr(size, SHRINKS[fail])
        bound = max((bound for bound in self.bounds[fail] if bound <= amount), default=0)
        return min(size.steps(fail), (amount - bound) // UNIT[fail])

    def _indifferent(self, size: InstanceSize, fail: Fail) -> int:
        """How often it can be made smaller by what no node or pool has to give it."""
        return 0 if self.takes_disk or fail is not Fail.DISK else self._free_steps(size, fail)

    def hopeless(self, size: InstanceSize) -> bool:
        """Whether nothing has a place that is at least this large in everything, whatever policies allow."""
        mem, dsk, vcpus = (
            max(pair) for pair in zip((size.mem, size.dsk, size.vcpus), self.floor, strict=True)
        )
        size = replace(size, mem=mem, dsk=dsk, vcpus=vcpus)
        if size in self.hopeful:
            return False
        if not any(size.holds(unfit) for unfit in self.unfit):
            if self.verdicts.at_best(size).fits and not self._ruled_out(size):
                self.hopeful.add(size)
                return False
            self.unfit.append(size)
        return True

    def _ruled_out(self, size: InstanceSize) -> bool:
        """Whether certainly no place leaves the whole redundant, if that is asked for."""
        mirrored = self.kind.mirrored
        if not self.site.guards(mirrored) or any(known.holds(size) for known in self.not_ruled_out):
            return False
        if any(size.holds(known) for known in self.ruled_out):
            return True
        asked = self.state.requested_instance(self.kind.instance(size))
        best = self.verdicts.at_best(size)
        candidates = (best.pairs or self.verdicts.all_pairs()) if mirrored else (best.nodes, None)
        found = self.redundancy.rules_out(asked, *candidates)
        (self.ruled_out if found else self.not_ruled_out).append(size)
        return found

    def sidestep(self, run: SizeRun) -> tuple[int, InstanceSize] | None:
        """The last size of a run that need only be made smaller to have a redundant place, by its most
        frequent reason, or else by the next, and the first size that has one then. The least that a size
        can have is not tried: so do Ganeti's htools.
        """
        found: tuple[int, InstanceSize] | None = None
        for fail in ranked(run.failures):
            at = run.number - 1 if run.failures[fail] else -1
            while at > (found[0] if found else -1):
                smaller = run[at].smaller(fail)
                if smaller is None:
                    break
                end, seen = self._end(smaller, fail)
                if end is not None:
                    found = at, end
                elif fail is worst(run.failures) or self._indifferent(run.largest, worst(run.failures)) >= at:
                    break  # the sizes before it come to the same end
                at -= 1 + self._alike(run, at, seen)
        return found

    def _alike(self, run: SizeRun, at: int, seen: list[InstanceSize] | None) -> int:
        """For how many sizes of a run, before one at which all was ``seen`` in vain, the same is seen."""
        if seen is None:
            return 0
        known, fail = self.verdicts.of(*seen), worst(run.failures)

        def alike(steps: list[int]) -> list[bool]:
            return [self.verdicts.of(*(size.less(fail, -step) for size in seen)) == known for step in steps]

        return _reach(at, alike)

    def _end(self, size: InstanceSize, fail: Fail) -> tuple[InstanceSize | None, list[InstanceSize] | None]:
        """The first size that fits as long as there is a lack of what ``fail`` is about; and the first and
        last of barren runs on the way, None if others were tried.
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
            if self.barren(size):
                last = size.less(fail, self._run(size, fail) - 1)
                seen = None if seen is None else [*seen, size, last]
            else:
                self._look_ahead(size, fail)
                seen = None
                if self._has_place(size):
                    end = size
                    break
                last = size.less(fail, self._indifferent(size, fail))
            if not self.verdicts.of(size)[0].failures[fail] or not last.steps(fail):
                break
            size = last.less(fail, 1)
        for number, start in enumerate(starts):
            self.ends[start, fail] = end, None if seen is None else seen[2 * number :]
        return end, seen

    def _has_place(self, size: InstanceSize) -> bool:
        """Whether a size that fits has a place that leaves the whole redundant, if that is asked for."""
        if size not in self.places:
            state, site = self.state, self.site
            asked = state.requested_instance(self.kind.instance(size))
            if not site.options.capacity:
                self.places[size] = True
            elif asked.mirrored:
                known = len(self.suspects)
                self.places[size] = self._has_pair(asked, self.verdicts.of(size)[0].pairs)
                if len(self.suspects) > known:
                    self.foreseen.clear()  # with one more, others may be ruled out
            else:
                self.places[size] = self._has_node(asked, self.verdicts.of(size)[0].nodes)
        return self.places[size]

    def _has_pair(self, asked: RequestedInstance, pairs: Pairs | None) -> bool:
        """Whether a mirrored instance has one of the pairs on which it fits, if they are few."""
        state, site, redundancy, found = self.state, self.site, self.redundancy, None
        if pairs is not None:
            found = has_pair(state, asked, pairs, redundancy, self.suspects)
        if found is None:
            found = any(each.trial is not None for each in on_all_pairs(state, asked, site, redundancy))
        return found

    def _has_node(self, asked: RequestedInstance, nodes: Ints | None) -> bool:
        """Whether an unmirrored instance has one on some of the nodes on which it fits."""
        assert nodes is not None
        redundancy, trial = self.redundancy, None
        admitted = nodes[redundancy.admits(asked, nodes, None)]
        for tries, node in enumerate(admitted.tolist()):
            if (known := redundancy.bears(asked, node, NOWHERE, self.suspects)) is not None:
                if known:
                    return True
                continue
            if tries >= PATIENCE and redundancy.hopeless(self.suspects):
                break
            if redundancy.rejects(asked, node, self.suspects):
                continue
            if trial is None:
                everyone = np.ones(len(self.state.group), np.bool_)
                trial = placements.allocate_one(self.state, asked, admitted, everyone)
            if redundancy.confirms(trial.only(tries), self.suspects):
                return True
        return False


def _reach(end: int, holds: Callable[[list[int]], list[bool]]) -> int:
    """The last of the numbers up to ``end`` for which something holds that holds for 0, and never again
    once it does not; asked about several in order.
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
