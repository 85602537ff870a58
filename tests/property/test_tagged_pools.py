"""Tags tell who sees a pool, whether nodes tell their storage units or not."""

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.balancing.balance import rebalance
from ganeti_htools.engine.redundancy.assessment import assess
from ganeti_htools.engine.redundancy.rule import can_be_lost, recover
from ganeti_htools.engine.rules import placements
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import BalancingOptions, PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import Unit
from ganeti_htools.model.types import DiskTemplate
from tests.property import narrow
from tests.property.narrow import DEFAULT, POOL
from tests.support.plain_storage import sees

TAG = f"htools:storage:{POOL.type.value}/{POOL.key}"


def on_pool(row: Instance) -> Instance:
    if row.template is not DiskTemplate.EXT:
        return row
    return replace(row, disks=tuple(replace(disk, unit=POOL) for disk in row.disks))


def states(seed: int) -> tuple[State, State, Instance]:
    """A cluster whose nodes tell their disk, the same with that as their only unit, and a new instance."""
    rng = Random(seed)
    made, new = narrow.cluster(rng), on_pool(narrow.instance(rng, "new"))
    nodes = tuple(
        replace(row, tags=(*row.tags, TAG) if rng.random() < 0.5 else row.tags, excl_stor=False)
        for row in made.nodes
    )
    plain = replace(made, nodes=nodes, instances=tuple(map(on_pool, made.instances)))
    told = tuple(replace(row, storage=(Unit(DEFAULT, int(row.t_dsk), row.f_dsk),)) for row in nodes)
    asked = (DiskTemplate.PLAIN, DiskTemplate.DRBD)  # of other units nothing is known either way
    return derive(plain, (new,)), derive(replace(plain, nodes=told, enabled_templates=asked), (new,)), new


@settings(max_examples=10)
@given(seed=st.integers(0, 1 << 40))
def test_decisions_are_the_same_with_disk_as_figure_or_as_unit(seed: int) -> None:
    plain, told, new = states(seed)
    everyone, rows = np.ones(len(plain.group), np.bool_), np.arange(len(plain.group))
    if new.template is not DiskTemplate.DRBD:
        codes = [
            placements.allocate_one(each, each.requested_instance(new), rows, everyone).codes
            for each in (plain, told)
        ]
        assert codes[0].tolist() == codes[1].tolist()
        if new.template is DiskTemplate.EXT:
            seen = [sees(plain.cluster, node, POOL) for node in plain.cluster.nodes]
            assert not (codes[0] == FITS)[~np.array(seen)].any()
    fragile = [assess(each, everyone, PlacementOptions()).fragile().tolist() for each in (plain, told)]
    assert fragile[0] == fragile[1]
    for node in rows.tolist():
        assert can_be_lost(plain, node, everyone) == can_be_lost(told, node, everyone)
        found = [list(recover(each.copy(), node, everyone, every=True)) for each in (plain, told)]
        assert found[0] == found[1]
    steps = [rebalance(each, everyone, BalancingOptions(min_gain=0))[1] for each in (plain, told)]
    assert steps[0] == steps[1]
