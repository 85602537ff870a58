"""Verdicts about many sizes at once: the candidates that take an instance, and reasons of the others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.capacity.scope import AllocationScope, positions_by_group
from ganeti_htools.engine.rules import instance_policy, node_rules, placements
from ganeti_htools.engine.rules.class_limits import without_own_limits
from ganeti_htools.engine.rules.node_rules import CODE, FAIL, FITS, Codes
from ganeti_htools.engine.rules.pools import fit
from ganeti_htools.model.columns import NOWHERE, Columns, Ints
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.policy import IPolicy
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail

BATCH = 1 << 18  # candidates evaluated in one go
FEW = 1 << 12  # largest number of pairs for which verdicts are remembered


class Candidates(NamedTuple):
    """Candidates: rows of primaries and of secondaries, NOWHERE for an instance that needs one node."""

    primaries: Ints
    secondaries: Ints


@dataclass(frozen=True, slots=True)
class SizeVerdict:
    """The number of candidates that take an instance, and the reasons of the others; without redundancy.

    ``places`` are the candidates that take it, None if they are pairs and many.
    """

    fits: int
    failures: dict[Fail, int]
    places: Candidates | None = field(default=None, compare=False)


class SizeVerdicts:
    """The verdicts about sizes of instances of a kind on a state, which must not change."""

    def __init__(self, state: State, kind: InstanceKind, scope: AllocationScope) -> None:
        self.state, self.kind, self.scope = state, kind, scope
        self.columns = state.columns.take(scope.nodes)
        self.unlimited = without_own_limits(self.columns)
        self.groups = positions_by_group(state, scope.nodes)
        self.few = sum(len(at) ** 2 for at in self.groups) <= FEW
        self.pools = scope.pools.free_after(state)
        self.known: dict[InstanceSize, SizeVerdict] = {}
        self.refused = self._always_refused(state.policies)

    def of(self, *sizes: InstanceSize) -> list[SizeVerdict]:
        new = [size for size in dict.fromkeys(sizes) if size not in self.known]
        if new:
            demands = [self.kind.instance(size).demand for size in new]
            refused = instance_policy.codes_of(self.state, demands, self.scope.nodes)
            self.known.update(zip(new, self._verdicts(new, refused), strict=True))
        return [self.known[size] for size in sizes]

    def at_best(self, size: InstanceSize) -> SizeVerdict:
        """The verdict about a size if nodes limit no amounts, and policies allow it where they allow any."""
        [verdict] = self._verdicts([size], self.refused, limited=False)
        return verdict

    def all_pairs(self) -> Candidates:
        nodes, group = self.scope.nodes, self.state.group[self.scope.nodes]
        primaries, secondaries = np.nonzero(
            (group[:, np.newaxis] == group) & ~np.eye(len(nodes), dtype=np.bool_)
        )
        return Candidates(nodes[primaries], nodes[secondaries])

    def _always_refused(self, policies: Sequence[IPolicy]) -> Codes:
        """Why the policies of nodes refuse instances of this kind whatever their size, in one row."""
        smallest = {pair.min for policy in policies for pair in policy.minmax}
        sizes = [
            InstanceSize(each.memory_size, each.disk_size, each.cpu_count, each.spindle_use)
            for each in smallest
        ]
        demands = [self.kind.instance(size).demand for size in sizes]
        codes = instance_policy.codes_of(self.state, demands, self.scope.nodes)
        refused: Codes = codes.min(axis=0, initial=np.iinfo(np.int8).max if demands else FITS, keepdims=True)
        return refused

    def _verdicts(
        self, sizes: Sequence[InstanceSize], refused: Codes, limited: bool = True
    ) -> list[SizeVerdict]:
        """About sizes, given which nodes (columns) refuse them (rows) anyway.

        Without ``limited``, limits of the amount of one instance do not count.
        """
        columns = self.columns if limited else self.unlimited
        _, codes = node_rules.add_primary(columns, self._cohort(sizes, np.arange(len(sizes))), 0, 0)
        if self.pools or self.state.cluster.pool_settings:
            rooms = [fit(self.pools, self.state, self.kind.instance(size), limited) for size in sizes]
            codes[[room == 0 for room in rooms]] = CODE[Fail.DISK]
        codes = np.where(refused != FITS, refused, codes)
        places: list[Candidates | None] = [None] * len(sizes)
        if self.kind.template.required_nodes == 1:
            counts = np.array([_counts(each) for each in codes])
            nodes = (self.scope.nodes[each == FITS] for each in codes)
            places = [Candidates(here, np.full_like(here, NOWHERE)) for here in nodes]
        else:
            known: list[tuple[Ints, Candidates]] = []
            counts = np.sum([self._pairs(sizes, codes, at, known, columns) for at in self.groups], axis=0)
            if self.few:
                places = list(_by_size(known, len(sizes)))
        return [
            SizeVerdict(each[FITS], {FAIL[code]: each[code] for code in FAIL}, taking)
            for each, taking in zip(counts.tolist(), places, strict=True)
        ]

    def _cohort(self, sizes: Sequence[InstanceSize], rows: Ints) -> RequestedInstance:
        """Instances of these rows of sizes as one, with figures in rows."""
        figures: dict[str, Any] = {
            name: np.array([getattr(size, name) for size in sizes])[rows, np.newaxis]
            for name in ("mem", "dsk", "vcpus", "spindles")
        }
        figures |= dict.fromkeys(("record_mem", "secondary_mem"), figures["mem"])
        space, asked = figures.pop("dsk"), self.state.requested_instance(self.kind.instance(sizes[0]))
        # All of it is on one unit, if it takes of any.
        disk = tuple(space if wanted else 0 for wanted in asked.wants[: len(asked.disk)])
        return replace(asked, disk=disk, **figures)

    def _pairs(
        self,
        sizes: Sequence[InstanceSize],
        codes: Codes,
        at: Ints,
        known: list[tuple[Ints, Candidates]],
        columns: Columns,
    ) -> Ints:
        """Count each code among the pairs of a group, for each size.

        To ``known`` the pairs on which sizes fit are added, if they are few, with the positions of the sizes.
        """
        codes, nodes, columns = codes[:, at], self.scope.nodes[at], columns.take(at)
        counts = np.array([_counts(each) for each in codes]) * (len(at) - 1)
        counts[:, FITS] = 0
        rows, primaries = np.nonzero(codes == FITS)
        for start in range(0, len(rows), BATCH // len(at)):
            row, primary = (each[start : start + BATCH // len(at)] for each in (rows, primaries))
            cohort = self._cohort(sizes, row)
            at, peers = nodes[primary][:, np.newaxis], self.state.peers[nodes[primary]][:, nodes]
            kept = placements.class_peers(self.state, at, nodes)
            _, second = node_rules.add_secondary(columns, cohort, peers, peers=kept)
            second[np.arange(len(row)), primary] = APART
            np.add.at(counts, row, np.array([_counts(each) for each in second]))
            if self.few:
                pair, second_at = np.nonzero(second == FITS)
                known.append((row[pair], Candidates(nodes[primary[pair]], nodes[second_at])))
        return counts


# The code of a node with itself.
APART = len(FAIL) + 1


def _by_size(known: Sequence[tuple[Ints, Candidates]], number: int) -> Iterator[Candidates]:
    """The pairs of each of so many sizes."""
    none = np.zeros(0, np.int64)
    which = np.concatenate([none, *(sizes for sizes, _ in known)])
    order, ends = np.argsort(which, kind="stable"), np.cumsum(np.bincount(which, minlength=number))
    split = (
        np.split(np.concatenate([none, *each])[order], ends[:-1])
        for each in zip(*(pairs for _, pairs in known), strict=True)
    )
    yield from map(Candidates, *split) if known else [Candidates(none, none)] * number


def _counts(codes: Codes) -> Ints:
    return np.bincount(codes, minlength=APART + 1)
