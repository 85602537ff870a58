import random

import numpy as np
import pytest

from ganeti_htools.engine.balancing import shared_storage
from ganeti_htools.engine.balancing.shared_storage import Table, shared_instances
from ganeti_htools.engine.rules import node_rules
from ganeti_htools.engine.rules.components import COMPONENTS, LOST
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.cluster import Instance, Load
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate, Status
from tests.support import by_hand
from tests.support.by_hand import instance

EXT = DiskTemplate.EXT
SIZES = {"n0": 9000, "n1": 9000}


def changes(*instances: Instance) -> dict[str, list[float]]:
    state = derive(by_hand.cluster(SIZES, instances))
    found = shared_instances(state, np.ones(len(instances), np.bool_))
    assert found is not None
    return {figure: amounts.tolist() for figure, amounts in found.changes.items()}


def test_what_instances_change() -> None:
    found = changes(instance("a", EXT, "n0", mem=100), instance("b", EXT, "n1", mem=200))
    loads = {figure: amounts for figure, amounts in found.items() if figure.startswith("load")}
    assert {figure: amounts for figure, amounts in found.items() if figure not in loads} == {
        "i_mem": [100, 200],
        "u_cpu": [1, 1],
        "f_mem_forth": [-100, -200],
        "primaries": [1, 1],
    }


def test_what_does_not_run_takes_less() -> None:
    state = instance("a", EXT, "n0", status=Status.OFFLINE)
    assert changes(state)["u_cpu"] == [0]
    assert changes(state)["i_mem"] == [state.mem if state.uses_memory else 0]


def test_loads_that_differ_are_columns_of_their_own() -> None:
    found = changes(instance("a", EXT, "n0", load=Load(1, 2, 3, 4)), instance("b", EXT, "n1"))
    assert [found[f"load_{kind}"][0] for kind in ("cpu", "mem", "dsk", "net")] == [1, 2, 3, 4]


def test_no_instances() -> None:
    state = derive(by_hand.cluster(SIZES, [instance("a", DiskTemplate.PLAIN, "n0")]))
    found = shared_instances(state, np.ones(1, np.bool_))
    assert found is not None
    assert len(found.rows) == 0
    after, steps = shared_storage.rebalance(state, np.ones(2, np.bool_), found)
    assert not steps
    assert after.pnode.tolist() == [0]


def test_mirrored_instances_are_left_to_the_search() -> None:
    state = derive(by_hand.cluster(SIZES, [instance("a", DiskTemplate.DRBD, "n0", "n1")]))
    assert shared_instances(state, np.ones(1, np.bool_)) is None


def test_an_instance_on_an_offline_node_costs_what_the_components_say() -> None:
    assert sum(each.weight for each in COMPONENTS if each.aggregate is LOST) == shared_storage.LOST


@pytest.mark.parametrize("forced", [False, True])
def test_the_limits_are_those_of_the_rules(forced: bool) -> None:
    rng, kinds = random.Random(7), set[int]()
    for _ in range(150):
        names = [f"n{number}" for number in range(4)]
        made = [
            instance(f"i{number}", EXT, rng.choice(names), mem=rng.randrange(1, 5)) for number in range(6)
        ]
        described = by_hand.cluster({name: rng.randrange(5, 14) for name in names}, made)
        state = derive(described)
        state.columns.r_mem[:] = [rng.randrange(3) for _ in names]
        state.columns.fail_n1[:] = state.columns.unallocated <= state.columns.r_mem
        state.columns.f_mem_forth[:] -= np.array([rng.randrange(3) for _ in names])
        state.columns.t_cpu[:] = 1.0
        state.columns.vcpu_ratio[:] = [rng.randrange(-1, 5) for _ in names]
        found = shared_instances(state, np.ones(len(made), np.bool_))
        assert found is not None
        table = Table(state, np.ones(4, np.bool_), found)
        members = np.arange(len(made))
        possible = np.isfinite(table.scores(members, forced))
        for member in members.tolist():
            here = state.columns.take(np.arange(4))
            _, codes = node_rules.add_primary(here, state.instance(member), 0, 0, force=forced)
            fits = codes == FITS
            if not forced:
                # Its own node is none to move to.
                fits[state.pnode[member]] = False
            kinds |= set(codes.tolist())
            assert possible[member].tolist() == fits.tolist()
    assert len(kinds) > 1
