"""Contradictions in rules about nodes, against all placements of few instances."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.rules.contradictions import RuleCheck, check_rules
from ganeti_htools.model.cluster import Cluster, Group, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.without_instances import emptied
from tests.support.by_hand import instance, node
from tests.support.placement_rules import NODE, TOGETHER, violations, with_rules


def _case(seed: int) -> Cluster:
    """Few instances with many rules; what fits on a node depends on memory only."""
    rng = Random(seed)
    names = [f"node{number}" for number in range(rng.randint(2, 4))]
    groups = tuple(Group(f"group{number}", f"uuid{number}") for number in range(rng.choice((1, 1, 2))))
    nodes = tuple(
        node(
            name,
            rng.choice((2500, 4500, 9000)),
            group=rng.choice(groups).uuid,
            offline=rng.random() < 0.15,
            tags=tuple(tag for tag in ("rack:1", "rack:2") if rng.random() < 0.5),
        )
        for name in names
    )
    rows = []
    for number in range(rng.randint(2, 5)):
        template = rng.choice((DiskTemplate.EXT, DiskTemplate.EXT, DiskTemplate.DRBD))
        p, s = rng.sample(names, 2)
        mirror = s if template is DiskTemplate.DRBD else None
        rows.append(instance(f"inst{number}", template, p, mirror, mem=rng.choice((1000, 2000))))
    return with_rules(rng, Cluster(groups, nodes, tuple(rows)), rng.choice((0.4, 0.7)))


cases = st.builds(_case, st.integers(0, 1 << 40))


def rules_of(row: Instance) -> set[str]:
    """The rules of an instance; names of nodes are one rule, since any of them is enough."""
    names = sorted(tag for tag in row.tags if tag.startswith(NODE))
    return {*row.tags} - {*names} | ({" or ".join(names)} if names else set())


def with_rules_only(row: Instance, rules: set[str]) -> Instance:
    return replace(row, tags=tuple(tag for rule in rules_of(row) & rules for tag in rule.split(" or ")))


def possible(cluster: Cluster, rows: Iterable[Instance], rules: set[str]) -> bool:
    """Whether some placement keeps these rules of these instances."""
    return _completed(replace(cluster, instances=()), [with_rules_only(row, rules) for row in rows])


def _completed(cluster: Cluster, rows: list[Instance]) -> bool:
    if violations(cluster) or not _fits(cluster):
        return False
    if not rows:
        return True
    row, *rest = rows
    return any(
        _completed(replace(cluster, instances=(*cluster.instances, placed)), rest)
        for placed in _places(cluster, row)
    )


def _places(cluster: Cluster, row: Instance) -> Iterable[Instance]:
    nodes = [each for each in cluster.nodes if not each.offline]
    if row.snode is None:
        return [replace(row, pnode=one.name) for one in nodes]
    return [
        replace(row, pnode=one.name, snode=other.name)
        for one in nodes
        for other in nodes
        if one is not other and one.group == other.group
    ]


def _fits(cluster: Cluster) -> bool:
    """Whether sets that stay together leave some memory of their nodes, and so does each instance."""
    sets = [[row] for row in cluster.instances]
    sets.append([row for row in cluster.instances if TOGETHER in row.tags])
    memory = {each.name: each.t_mem for each in cluster.nodes}
    for rows in filter(None, sets):
        mirrored = [row for row in rows if row.snode]
        if sum(row.mem for row in rows) >= memory[rows[0].pnode]:
            return False
        if mirrored and sum(row.mem for row in mirrored) >= memory[str(mirrored[0].snode)]:
            return False
    return True


def checked(cluster: Cluster) -> RuleCheck:
    return check_rules(derive(emptied(cluster), cluster.instances), cluster.instances)


@settings(max_examples=60, deadline=None)
@given(cluster=cases)
def test_nothing_can_be_left_out_of_contradictions_and_a_placement_is_left(cluster: Cluster) -> None:
    found, rows = checked(cluster), list(cluster.instances)
    oversized = [row for row in rows if not possible(cluster, [row], set())]
    assert not found.undecided
    assert all(rows[each] in oversized for each in found.oversized)
    rest = [row for row in rows if row not in oversized]
    everything = {rule for row in rows for rule in rules_of(row)}
    for each in found.contradictions:
        concerned = [rows[index] for index in each.instances]
        assert not possible(cluster, concerned, {*each.rules})
        for rules in combinations(each.rules, len(each.rules) - 1):
            assert possible(cluster, concerned, {*rules})
        for some in combinations(concerned, len(concerned) - 1):
            assert possible(cluster, some, {*each.rules})
        rest = [row for row in rest if row not in concerned]
    assert possible(cluster, rest, everything)
