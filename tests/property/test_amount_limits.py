"""Limits of the amounts that one instance takes of what Ganeti counts, against the plain rule."""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given, settings

from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.cluster import MAX_MIB, Cluster, Instance, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.resource_classes import is_own
from ganeti_htools.model.resource_usage import local_unit_classes, usage_on
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.units import Units
from tests.property.narrow import cases
from tests.support.trials import anew

limited_cases = cases.filter(lambda case: bool(case[0].columns.shape.limited))


def allows(node: Node, new: Instance, units: Units) -> bool:
    """Whether a node allows each amount that a new instance would take of it as primary."""
    placed = replace(new, pnode=node.name)
    amounts = usage_on(node.name, placed, units, local_unit_classes(units), node.excl_stor)
    return all(
        replace(inventory, total=MAX_MIB, reserved=0).allows(amounts[name])
        for name, inventory in node.inventories
        if is_own(name) and name in amounts
    )


def without_limits(cluster: Cluster) -> Cluster:
    """The cluster with what is reserved of the classes that Ganeti counts, and no limits of amounts."""

    def lifted(node: Node) -> Iterator[tuple[str, Inventory]]:
        for name, each in node.inventories:
            yield name, Inventory(each.total, each.reserved) if is_own(name) else each

    nodes = (replace(node, inventories=tuple(lifted(node))) for node in cluster.nodes)
    return replace(cluster, nodes=tuple(nodes))


@settings(max_examples=40)
@given(case=limited_cases)
def test_new_instance_fits_only_where_its_amounts_are_allowed(case: tuple[State, Instance]) -> None:
    state, new = case
    free = derive(without_limits(state.cluster), (new,))
    assert not free.columns.shape.limited
    found, plain = anew(state, new), anew(free, new)
    for candidate, code in enumerate(found.codes.tolist()):
        rows = [found.pnode[candidate]]
        if new.template is DiskTemplate.DRBD:
            rows.append(found.snode[candidate])
        allowed = all(allows(state.cluster.nodes[int(row)], new, state.units) for row in rows)
        assert (code == FITS) == (plain.codes[candidate] == FITS and allowed)
