"""An explanation names exactly what is missing."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from ganeti_htools.engine.allocation import allocate
from ganeti_htools.engine.allocation.shortage import explain
from ganeti_htools.engine.rules import affinity, node_rules, placements
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Instance, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import Fail
from tests.property.narrow import cases

LACKS = re.compile(r"most missing: (.*); closest: (\w+) lacks (\d+)(?: MiB)?; counted as (\w+): \d+")


def with_more(node: Node, thing: str, amount: int, vcpu_ratio: float) -> Node:
    """The node with so much more of a thing."""
    match thing:
        case "memory" | "memory to be kept free on a secondary":
            return replace(node, t_mem=node.t_mem + amount, f_mem=node.f_mem + amount)
        case _ if thing.startswith("disk"):
            return with_more_disk(node, thing.removeprefix("disk space on "), amount)
        case "spindles":
            return replace(node, f_spindles=node.f_spindles + amount)
        case _ if thing.startswith("CUSTOM"):
            return with_more_of_class(node, *thing.partition(" ")[::2], amount)
        case _:
            assert thing == "virtual CPUs by the policy's ratio"
            return replace(node, t_cpu=node.t_cpu + amount / vcpu_ratio)


def with_larger_disks(new: Instance) -> dict[str, Any]:
    return {
        "dsk": 4 * new.dsk,
        "disks": tuple(replace(disk, size=4 * disk.size) for disk in new.disks),
    }


def with_more_of_class(node: Node, name: str, what: str, amount: int) -> Node:
    """The node with so much more of a custom class, or giving so much more or less to one instance."""
    there = dict(node.inventories)[name]
    match what:
        case "" | "to be kept free on a secondary":
            # Where the inventory is multiplied, the least that makes so much of it.
            more = next(n for n in range(amount + 1) if _capacity(there, n) >= there.capacity + amount)
            there = replace(there, total=there.total + more)
        case "for one instance (max_unit)":
            assert there.max_unit is not None
            there = replace(there, max_unit=there.max_unit + amount)
        case _:
            raise AssertionError(what)
    return replace(node, inventories=tuple((dict(node.inventories) | {name: there}).items()))


def _lacks_one_thing(node: Node, new: Instance, thing: str) -> bool:
    """Whether more of a thing is enough: not as many others speak against the amount, nor its step."""
    name = thing.partition(" ")[0]
    there, amount = dict(node.inventories)[name], tags.demands(new.tags)[name]
    short = amount > there.capacity or " " not in thing
    large = there.max_unit is not None and amount > there.max_unit
    small, uneven = amount < there.min_unit, amount != there.min_unit and amount % there.step_size > 0
    return [short, large, small, uneven] in ([True, False, False, False], [False, True, False, False]) or (
        thing.endswith("secondary") and not (large or small or uneven)
    )


def _capacity(there: Inventory, more: int) -> int:
    return replace(there, total=there.total + more).capacity


def with_more_disk(node: Node, unit: str, amount: int) -> Node:
    if node.storage is None:
        return replace(node, t_dsk=node.t_dsk + amount, f_dsk=node.f_dsk + amount)
    return replace(
        node,
        storage=tuple(
            each._replace(total=each.total + amount, free=each.free + amount)
            if str(each.desired) == unit
            else each
            for each in node.storage
        ),
    )


def codes(state: State, new: Instance, row: int, thing: str, force: bool) -> set[int]:
    """Why a node cannot take the instance in the role in which the thing is needed, for each primary."""
    asked, node = state.requested_instance(new), state.columns.take(np.array([row]))
    both = thing.startswith(("disk", "spindles"))
    if thing.endswith("to be kept free on a secondary") or (asked.mirrored and both):
        others = np.flatnonzero((state.group == state.group[row]) & ~state.columns.offline)
        return {
            int(
                node_rules.add_secondary(
                    node,
                    asked,
                    int(state.peers[primary, row]),
                    peers=placements.class_peers(state, primary, row),
                )[1][0]
            )
            for primary in others.tolist()
            if primary != row
        }
    tags = affinity.tag_conflicts(state, asked)[[row]]
    return {int(node_rules.add_primary(node, asked, tags, np.int64(0), force)[1][0])}


@settings(max_examples=75)
@given(case=cases)
@pytest.mark.parametrize("force", [False, True])
def test_missing_amount_suffices_and_less_does_not(force: bool, case: tuple[State, Instance]) -> None:
    state, new = case
    new = replace(new, mem=8 * new.mem, vcpus=8 * new.vcpus, **with_larger_disks(new))
    asked, count = state.requested_instance(new), new.template.required_nodes
    options = PlacementOptions(capacity=False, ignore_soft_errors=force)
    outcomes = allocate.in_groups(state, asked, count, options, range(len(state.cluster.groups)))
    explanation = (
        None if allocate.ranked(state, outcomes) else explain(state, asked, count, outcomes, options)
    )
    match = LACKS.fullmatch(explanation) if explanation else None
    if match is None or match[1] == "spindles by the policy's ratio":
        return
    thing, row, amount, fail = match[1], state.nodes[match[2]], int(match[3]), CODE[Fail(match[4])]
    before = codes(state, new, row, thing, force)
    assert FITS not in before
    if not before or (len(asked.disk) > 1 and sum(asked.wants) > 1) or sum(map(bool, asked.classes)) > 1:
        return  # there is nobody to be secondary for, or another unit or class may lack as much
    if state.columns.shape.limited:
        return  # more of a thing does not help against the limits of amounts
    if thing.startswith("CUSTOM") and not _lacks_one_thing(state.cluster.nodes[row], new, thing):
        return
    for more, enough in ((amount - 1, False), (amount, True)):
        nodes = list(state.cluster.nodes)
        nodes[row] = with_more(nodes[row], thing, more, state.policies[0].vcpu_ratio)
        better = derive(replace(state.cluster, nodes=tuple(nodes)), (new,))
        found = codes(better, new, row, thing, force)
        assert found - {fail} if enough else FITS not in found
