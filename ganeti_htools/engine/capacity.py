"""How many more instances a cluster takes: of one size, or of sizes that shrink as it fills (``hspace(1)``).

Instances are placed one after the other as :mod:`.allocate` would. Redundancy of the whole is looked at
in large steps, and instance by instance only where a step went too far; not at all for mirrored ones
where existing errors are accepted, since they keep enough memory free on their secondaries as it is.
In tiered allocation, when a size no longer fits, it is made smaller by what most candidates lack, a unit
at a time; if that ends without success, each size on the way is made smaller by the other things that it
lacks.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ganeti_htools.engine import choice, moves, places
from ganeti_htools.engine.allocate import Solution, on_nodes, on_pairs
from ganeti_htools.engine.filling import Filled, fill
from ganeti_htools.engine.options import Options
from ganeti_htools.engine.places import FAIL, FITS, Codes
from ganeti_htools.engine.redundancy import Redundancy, assess
from ganeti_htools.engine.refuge import Memory
from ganeti_htools.model.cluster import Disk, Instance
from ganeti_htools.model.columns import Bools, Ints
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.policy import IPolicy
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import DiskTemplate, Fail

Failures = dict[Fail, int]

# What a size is made smaller by, which is also the least it can have.
UNIT = {Fail.MEM: 64, Fail.DISK: 256, Fail.CPU: 1, Fail.SPINDLES: 1}
SHRINKS = {Fail.MEM: "mem", Fail.DISK: "dsk", Fail.CPU: "vcpus", Fail.SPINDLES: "spindles"}

# Instances placed before redundancy is looked at: the least of a guess, and after a guess failed.
LARGE_STEP, STEP = 20, 10

# How many sizes and candidates are looked at in one go, at most.
AHEAD, BATCH = 512, 1 << 18


@dataclass(frozen=True, slots=True)
class Size:
    """What an instance takes; memory and disk in MiB."""

    mem: int
    dsk: int
    vcpus: int
    spindles: int = 1

    def smaller(self, fail: Fail) -> "Size | None":
        """A unit less of what ``fail`` is about; None if nothing would be left, or it is about no amount."""
        if fail not in UNIT:
            return None
        name, unit = SHRINKS[fail], UNIT[fail]
        left = getattr(self, name) - unit
        return replace(self, **{name: left}) if left >= unit else None

    def least(self, *fails: Fail) -> "Size":
        """The smallest size that can be reached, by making less of all or only of these amounts."""
        return replace(
            self,
            **{
                SHRINKS[fail]: getattr(self, SHRINKS[fail]) % UNIT[fail] + UNIT[fail]
                for fail in fails or UNIT
                if getattr(self, SHRINKS[fail]) > UNIT[fail]
            },
        )

    def holds(self, other: "Size") -> bool:
        """Whether it is at least as large in everything."""
        return (
            self.mem >= other.mem
            and self.dsk >= other.dsk
            and self.vcpus >= other.vcpus
            and self.spindles >= other.spindles
        )


@dataclass(frozen=True, slots=True)
class Kind:
    """What all instances have in common but their size."""

    template: DiskTemplate
    spindle_use: int

    def instance(self, size: Size) -> Instance:
        """An instance of a size."""
        return Instance(
            name="new",
            mem=size.mem,
            dsk=size.dsk,
            disks=(Disk(size.dsk, size.spindles),),
            vcpus=size.vcpus,
            template=self.template,
            spindle_use=self.spindle_use,
        )


@dataclass(frozen=True, slots=True)
class Site:
    """Where instances may go: rows of online ``nodes``; ``ignored`` nodes may be lost without survival."""

    nodes: Ints
    ignored: Bools
    options: Options
    progress: Callable[[int], object] = lambda placed: None
    memory: Memory = field(default_factory=Memory)

    def guards(self, mirrored: bool) -> bool:
        """Whether the redundancy of the whole is looked at when such an instance is placed."""
        return self.options.capacity and not (mirrored and self.options.accept_existing)

    def redundancy(self, state: State) -> Redundancy:
        """What can be said of the redundancy of all nodes."""
        known = assess(state, np.ones(len(state.group), np.bool_), self.options)
        return replace(known, looked=known.looked & ~self.ignored, memory=self.memory)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What found a place, how many of each size in order, and how many candidates each reason rules out."""

    state: State
    tiers: tuple[tuple[Size, int], ...]
    failures: Failures

    @property
    def placed(self) -> int:
        """Number of instances."""
        return sum(number for _, number in self.tiers)


def check_enough(state: State, template: DiskTemplate, nodes: Ints) -> None:
    """Raises RequestFailed if no instance could ever go on these nodes."""
    if template.required_nodes == 1:
        if not len(nodes):
            raise RequestFailed("No online nodes")
    elif not len(_by_group(state, nodes)):
        raise RequestFailed("Not enough online nodes")


def standard(state: State, kind: Kind, size: Size, site: Site, limit: int | None) -> Capacity:
    """Instances of one size, at most ``limit`` if not negative."""
    state, filled = _filled(state.copy(), kind, size, site, 0, limit)
    return Capacity(state, ((size, filled.placed),) if filled.placed else (), filled.failures)


def tiered(state: State, kind: Kind, sizes: Sequence[Size], site: Site, limit: int | None) -> Capacity:
    """Instances of each of ``sizes`` in turn, each made smaller again and again."""
    result = Capacity(state.copy(), (), {})
    for size in sizes:
        if limit is not None and limit <= result.placed:
            break
        result = _tiers(result, kind, _Level(size, _less(limit, result.placed)), site)
    return result


@dataclass(frozen=True, slots=True)
class _Level:
    """A size that is tried, at most ``limit`` times, and why no more of it fit."""

    size: Size
    limit: int | None
    failures: Failures = field(default_factory=dict)


def _tiers(before: Capacity, kind: Kind, start: _Level | None, site: Site) -> Capacity:
    """Further tiers, from a size on.

    The limit of a size is that of the one before it less all instances placed so far, not only those of
    that size: so do Ganeti's htools.
    """
    state, tiers, placed, result = before.state, list(before.tiers), before.placed, None
    while start is not None:
        level: _Level | None = start
        passed: list[_Level] = []
        prospects = _Prospects(state, kind, site)
        while level is not None:
            verdict = None if level is start else prospects.of(level.size, worst(passed[-1].failures), AHEAD)
            if verdict is None or verdict.fits:
                state, filled = _filled(state, kind, level.size, site, placed, level.limit)
                level = replace(level, failures=filled.failures)
                if filled.placed or result is None:
                    passed = []
                    placed += filled.placed
                    tiers += [(level.size, filled.placed)] * (filled.placed > 0)
                    result = filled.failures
                    prospects = _Prospects(state, kind, site)
            else:
                level = replace(level, failures=verdict.failures)
            if level.limit is not None and level.limit <= placed:
                break
            passed.append(level)
            smaller = None
            if not prospects.hopeless(level.size.least()):
                smaller = level.size.smaller(worst(level.failures))
            level = None if smaller is None else _Level(smaller, _less(level.limit, placed))
        sidesteps = (
            _Level(size, _less(level.limit, placed))
            for level in reversed(passed)
            if (size := prospects.sidestep(level)) is not None
        )
        start = next(sidesteps, None)
    assert result is not None
    return Capacity(state, tuple(tiers), result)


def _less(limit: int | None, placed: int) -> int | None:
    return None if limit is None else limit - placed


def ranked(failures: Failures) -> list[Fail]:
    """Reasons, the most frequent first, of equal ones the last. (``failures`` are in the order of Fail.)"""
    latest_first = list(failures)[::-1]
    return sorted(latest_first, key=failures.__getitem__, reverse=True)


def worst(failures: Failures) -> Fail:
    """The most frequent reason, of equal ones the last."""
    return max(reversed(failures), key=failures.__getitem__)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Whether an instance fits anywhere, redundancy of the whole aside, and why candidates do not do."""

    fits: bool
    failures: Failures


class _Prospects:
    """Which sizes fit on a state, found out for many sizes at once."""

    def __init__(self, state: State, kind: Kind, site: Site) -> None:
        self.state, self.kind, self.site = state, kind, site
        self.columns = state.columns.take(site.nodes)
        self.groups = _by_group(state, site.nodes)
        bounds = [pair.min for policy in state.policies for pair in policy.minmax]
        self.floor = [
            min((getattr(bound, name) for bound in bounds), default=0)
            for name in ("memory_size", "disk_size", "cpu_count")
        ]
        self.known: dict[Size, _Verdict] = {}
        self.ends: dict[tuple[Size, Fail], Size | None] = {}
        self.unfit: list[Size] = []
        self.hopeful: set[Size] = set()
        self.redundancy = site.redundancy(state)
        self.refused = self._always_refused(state.policies)
        self.ahead = 1

    def _always_refused(self, policies: Sequence[IPolicy]) -> Codes:
        """Why the policies of nodes refuse instances of this kind whatever their size, in one row."""
        smallest = {pair.min for policy in policies for pair in policy.minmax}
        sizes = [
            Size(each.memory_size, each.disk_size, each.cpu_count, each.spindle_use) for each in smallest
        ]
        demands = [self.kind.instance(size).demand for size in sizes]
        codes = moves.refusals(self.state, demands, self.site.nodes)
        refused: Codes = codes.min(axis=0, initial=np.iinfo(np.int8).max if demands else FITS, keepdims=True)
        return refused

    def of(self, size: Size, fail: Fail, ahead: int = 1) -> _Verdict:
        """About a size; so many, each made smaller by ``fail``, are expected to be asked for next."""
        if size not in self.known:
            sizes = [size]
            while len(sizes) < min(ahead, self.ahead) and (smaller := sizes[-1].smaller(fail)) is not None:
                sizes.append(smaller)
            self.ahead *= 2
            rows = [self.kind.instance(size) for size in sizes]
            refused = moves.refusals(self.state, [row.demand for row in rows], self.site.nodes)
            self.known.update(zip(sizes, self._verdicts(sizes, refused), strict=True))
        return self.known[size]

    def hopeless(self, size: Size) -> bool:
        """Whether nothing has a place that is at least this large in everything, whatever policies allow."""
        mem, dsk, vcpus = (
            max(pair) for pair in zip((size.mem, size.dsk, size.vcpus), self.floor, strict=True)
        )
        size = replace(size, mem=mem, dsk=dsk, vcpus=vcpus)
        if size in self.hopeful:
            return False
        if not any(size.holds(unfit) for unfit in self.unfit):
            if self._verdicts([size], self.refused)[0].fits and not self._ruled_out(size):
                self.hopeful.add(size)
                return False
            self.unfit.append(size)
        return True

    def _ruled_out(self, size: Size) -> bool:
        """Whether certainly no place leaves the whole redundant, if that is asked for."""
        asked = self.state.ask(self.kind.instance(size))
        if not self.site.guards(asked.mirrored):
            return False
        groups = [self.site.nodes[at] for at in self.groups] if asked.mirrored else [self.site.nodes]
        return all(self.redundancy.rules_out(asked, nodes) for nodes in groups)

    def sidestep(self, level: _Level) -> Size | None:
        """The first smaller size that has a redundant place: less of the most frequent reason, or else
        of the next. The least that a size can have is not tried: so do Ganeti's htools.
        """
        for fail in ranked(level.failures):
            smaller = level.size.smaller(fail) if level.failures[fail] else None
            found = None if smaller is None else self._end(smaller, fail)
            if found is not None:
                return found
        return None

    def _end(self, size: Size, fail: Fail) -> Size | None:
        """The first size that fits as long as there is a lack of what ``fail`` is about."""
        if self.hopeless(size.least(fail)):
            return None
        walked, end = [], None
        step: Size | None = size
        while step is not None:
            if (step, fail) in self.ends:
                end = self.ends[step, fail]
                break
            walked.append((step, fail))
            smaller = step.smaller(fail)
            if smaller is None:
                break
            if self._has_place(step, fail, len(walked)):
                end = step
                break
            step = smaller if self.of(step, fail).failures[fail] else None
        self.ends.update(dict.fromkeys(walked, end))
        return end

    def _has_place(self, size: Size, fail: Fail, ahead: int) -> bool:
        """Whether there is a place that leaves the whole redundant, if that is asked for."""
        if not self.of(size, fail, ahead).fits:
            return False
        state, site = self.state, self.site
        if not site.options.capacity:
            return True
        asked = state.ask(self.kind.instance(size))
        if asked.mirrored:
            return any(found.trial is not None for found in _on_pairs(state, asked, site, self.redundancy))
        return _has_redundant_node(state, asked, site.nodes, self.redundancy)

    def _verdicts(self, sizes: Sequence[Size], refused: Codes) -> list[_Verdict]:
        """About sizes, given which nodes (columns) refuse them (rows) anyway."""
        _, codes = places.add_primary(self.columns, self._cohort(sizes, (-1, 1)), 0, 0)
        codes = np.where(refused != FITS, refused, codes)
        if self.kind.template.required_nodes == 1:
            counts = np.array([_counts(each) for each in codes])
        else:
            counts = np.sum([self._pairs(sizes, codes, at) for at in self.groups], axis=0)
        return [
            _Verdict(each[FITS] > 0, {FAIL[code]: each[code] for code in FAIL}) for each in counts.tolist()
        ]

    def _cohort(self, sizes: Sequence[Size], shape: tuple[int, ...]) -> Asked:
        """Instances of all these sizes as one, with figures of this shape."""
        figures: dict[str, Any] = {
            name: np.array([getattr(size, name) for size in sizes]).reshape(shape)
            for name in ("mem", "dsk", "vcpus", "spindles")
        }
        figures |= dict.fromkeys(("record_mem", "secondary_mem"), figures["mem"])
        return replace(self.state.ask(self.kind.instance(sizes[0])), **figures)

    def _pairs(self, sizes: Sequence[Size], codes: Codes, at: Ints) -> Ints:
        """How often each code occurs among the pairs of a group, for each size."""
        codes, nodes, columns = codes[:, at], self.site.nodes[at], self.columns.take(at)
        counts = np.array([_counts(each) for each in codes]) * (len(at) - 1)
        counts[:, FITS] = 0
        rows, primaries = np.nonzero(codes == FITS)
        for start in range(0, len(rows), BATCH // len(at)):
            row, primary = (each[start : start + BATCH // len(at)] for each in (rows, primaries))
            cohort = self._cohort([sizes[each] for each in row.tolist()], (-1, 1))
            _, second = places.add_secondary(columns, cohort, self.state.peers[nodes[primary]][:, nodes])
            second[np.arange(len(row)), primary] = APART
            np.add.at(counts, row, np.array([_counts(each) for each in second]))
        return counts


# The code of what is no pair.
APART = len(FAIL) + 1


def _counts(codes: Codes) -> Ints:
    return np.bincount(codes, minlength=APART + 1)


def _has_redundant_node(state: State, asked: Asked, nodes: Ints, redundancy: Redundancy) -> bool:
    trial = moves.allocate_one(state, asked, nodes, np.ones(len(state.group), np.bool_))
    suspects: list[int] = []
    for at in np.flatnonzero((trial.codes == FITS) & redundancy.admits(asked, nodes, None)).tolist():
        if redundancy.confirms(trial.only(at), suspects):
            return True
        if redundancy.hopeless(suspects):
            break
    return False


def _on_pairs(state: State, asked: Asked, site: Site, redundancy: Redundancy) -> Iterator[Solution]:
    """Redundant places for a mirrored instance, in each group in turn."""
    everyone = np.ones(len(state.group), np.bool_)
    base = choice.base(state, everyone, moves.crowding(state, everyone))
    for at in _by_group(state, site.nodes):
        nodes = site.nodes[at]
        yield on_pairs(state, asked, nodes, nodes, base, site.options, redundancy)


def _solution(state: State, asked: Asked, site: Site) -> Solution:
    """The best redundant place, in any group."""
    redundancy, everyone = site.redundancy(state), np.ones(len(state.group), np.bool_)
    if not asked.mirrored:
        return on_nodes(state, asked, site.nodes, everyone, site.options, redundancy)
    found = list(_on_pairs(state, asked, site, redundancy))
    failures = sum((Counter(each.failures) for each in found), Counter())
    good = [each for each in found if each.trial is not None]
    if not good:
        return Solution(failures, 0)
    lowest = min(each.metric for each in good)
    best = max((each for each in good if not each.metric > lowest), key=lambda each: each.nodes)
    return replace(best, failures=failures)


def _by_group(state: State, nodes: Ints) -> list[Ints]:
    """Positions of the nodes of each group that has a pair."""
    groups = state.group[nodes]
    return [at for group in np.unique(groups) if len(at := np.flatnonzero(groups == group)) > 1]


def _filled(
    state: State, kind: Kind, size: Size, site: Site, first: int, limit: int | None
) -> tuple[State, Filled]:
    """Instances of one size on a state of its own, numbered from ``first``; the state may be changed."""
    row, placed = kind.instance(size), 0
    if limit is not None and limit < 0:
        limit = None
    mirrored = kind.template is DiskTemplate.DRBD
    if not site.guards(mirrored):
        return state, fill(state, row, site.nodes, first, limit, site.progress)
    if limit != 0 and (solution := _solution(state, state.ask(row), site)).trial is None:
        return state, Filled(0, _all_reasons(solution))
    step = _guess(state, size)
    while True:
        trial = state.copy()
        number = step if limit is None else min(step, limit)
        filled = fill(trial, row, site.nodes, first + placed, number, site.progress)
        if site.redundancy(trial).holds():
            state, placed = trial, placed + filled.placed
            limit = None if limit is None else max(0, limit - step)
            if limit == 0 or filled.placed < number:
                return state, Filled(placed, filled.failures)
            step = STEP if step == STEP else _guess(state, size)
        elif step == STEP:
            break
        else:
            step = STEP
    return _one_by_one(state, row, site, first, placed, limit)


def _all_reasons(solution: Solution) -> Failures:
    return {fail: solution.failures.get(fail, 0) for fail in Fail}


def _guess(state: State, size: Size) -> int:
    """About how many instances fit by memory, rather too few; never STEP."""
    free = np.maximum(state.columns.unallocated - state.columns.r_mem, 0).sum()
    return max(LARGE_STEP, int(free) // max(1, size.mem) - len(state.group))


def _one_by_one(
    state: State, row: Instance, site: Site, first: int, placed: int, limit: int | None
) -> tuple[State, Filled]:
    """The same, with a look at redundancy each time."""
    while True:
        asked = state.ask(replace(row, name=f"{row.name}-{first + placed}"))
        solution = _solution(state, asked, site)
        if solution.trial is None or limit == 0:
            return state, Filled(placed, _all_reasons(solution))
        moves.settle(state, solution.trial)
        placed, limit = placed + 1, _less(limit, 1)
        site.progress(placed)
