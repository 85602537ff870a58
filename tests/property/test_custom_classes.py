"""Custom resource classes against a second, slow and plain version of the rules."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings

from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.resource_classes import is_own
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Status
from tests.property.narrow import cases, figures
from tests.support.trials import anew

with_classes = cases.filter(lambda case: bool(case[0].units.classes))


def demand(row: Instance, name: str) -> int:
    return 0 if row.status is Status.OFFLINE else tags.demands(row.tags).get(name, 0)


def inventory(node: Node, name: str) -> Inventory:
    return dict(node.inventories).get(name, Inventory(0))


def used(cluster: Cluster, node: Node, name: str, forthcoming: bool) -> int:
    rows = (row for row in cluster.instances if row.pnode == node.name)
    return sum(demand(row, name) for row in rows if forthcoming or not row.forthcoming)


def kept_for(cluster: Cluster, primary: str, node: Node, name: str) -> int:
    """Compute what a node keeps free for instances of a primary that may fail."""
    rows = (row for row in cluster.instances if (row.pnode, row.snode) == (primary, node.name))
    return sum(demand(row, name) for row in rows if row.uses_secondary_memory and not row.forthcoming)


def kept(cluster: Cluster, node: Node, name: str) -> int:
    return max(kept_for(cluster, each.name, node, name) for each in cluster.nodes)


def as_primary(cluster: Cluster, new: Instance, node: Node, name: str) -> bool:
    amount, there = demand(new, name), inventory(node, name)
    if not there.fits(amount, used(cluster, node, name, forthcoming=True)):
        return False
    free, wanted = there.capacity - used(cluster, node, name, forthcoming=False), kept(cluster, node, name)
    return new.forthcoming or free < wanted or free - amount >= wanted


def as_secondary(cluster: Cluster, new: Instance, primary: Node, node: Node, name: str) -> bool:
    there = inventory(node, name)
    own = demand(new, name) if new.uses_secondary_memory else 0
    if not there.allows(demand(new, name)):
        return False
    if there.capacity - used(cluster, node, name, forthcoming=True) < own:
        return False
    free, wanted = there.capacity - used(cluster, node, name, forthcoming=False), kept(cluster, node, name)
    together = kept_for(cluster, primary.name, node, name) + own
    return new.forthcoming or free < wanted or free >= max(wanted, together)


def without_classes(cluster: Cluster) -> Cluster:
    """The cluster with nothing but what is reserved of what Ganeti counts."""

    def own(node: Node) -> Node:
        return replace(node, inventories=tuple(each for each in node.inventories if is_own(each[0])))

    return replace(cluster, nodes=tuple(map(own, cluster.nodes)))


@settings(max_examples=75)
@given(case=with_classes)
def test_new_instance_fits_only_where_its_classes_are_free(case: tuple[State, Instance]) -> None:
    state, new = case
    cluster = state.cluster
    wanted = [name for name in state.units.classes if demand(new, name)]
    found, free = anew(state, new), anew(derive(without_classes(cluster), (new,)), new)
    for candidate, code in enumerate(found.codes.tolist()):
        primary = cluster.nodes[int(found.pnode[candidate])]
        expected = free.codes[candidate] == FITS
        expected &= all(as_primary(cluster, new, primary, name) for name in wanted)
        if new.template is DiskTemplate.DRBD:
            secondary = cluster.nodes[int(found.snode[candidate])]
            expected &= all(as_secondary(cluster, new, primary, secondary, name) for name in wanted)
        assert (code == FITS) == expected


@settings(max_examples=50)
@given(case=with_classes)
def test_a_class_that_no_node_has_limits_nothing(case: tuple[State, Instance]) -> None:
    state, new = case
    bare = without_classes(state.cluster)
    free = replace(new, tags=tuple(tag for tag in new.tags if not tag.startswith(tags.RESOURCE)))
    demanding, silent = anew(derive(bare, (new,)), new), anew(derive(bare, (free,)), free)
    assert np.array_equal(demanding.codes, silent.codes)
    for one, other in zip(demanding.changes, silent.changes, strict=True):
        for pair in zip(one.new, other.new, strict=True):
            assert np.array_equal(*map(figures, pair))
