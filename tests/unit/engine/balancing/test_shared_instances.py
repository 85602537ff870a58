import numpy as np

from ganeti_htools.engine.balancing.shared_instances import PER_LOST, shared_instances
from ganeti_htools.engine.rules.components import COMPONENTS, LOST
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


def test_changed_columns_of_shared_instances() -> None:
    found = changes(instance("a", EXT, "n0", mem=100), instance("b", EXT, "n1", mem=200))
    loads = {figure: amounts for figure, amounts in found.items() if figure.startswith("load")}
    assert {figure: amounts for figure, amounts in found.items() if figure not in loads} == {
        "i_mem": [100, 200],
        "u_cpu": [1, 1],
        "f_mem_forth": [-100, -200],
        "unallocated": [-100, -200],
        "primaries": [1, 1],
    }


def test_stopped_instance_takes_no_cpu() -> None:
    state = instance("a", EXT, "n0", status=Status.OFFLINE)
    assert "u_cpu" not in changes(state)
    assert ("i_mem" in changes(state)) is state.uses_memory


def test_loads_that_differ_are_columns_of_their_own() -> None:
    found = changes(instance("a", EXT, "n0", load=Load(1, 2, 3, 4)), instance("b", EXT, "n1"))
    assert [found[f"load_{kind}"][0] for kind in ("cpu", "mem", "dsk", "net")] == [1, 2, 3, 4]


def test_aliases_are_left_out() -> None:
    state = derive(by_hand.cluster(SIZES, [instance("a", EXT, "n0")]))
    assert state.columns.aliases["u_cpu_forth"] == "u_cpu"
    assert "u_cpu_forth" not in changes(instance("a", EXT, "n0"))
    state.columns = state.columns.with_forthcoming_apart()
    found = shared_instances(state, np.ones(1, np.bool_))
    assert found is not None
    assert found.changes["u_cpu_forth"].tolist() == [1]


def test_instances_that_change_the_same_are_alike() -> None:
    rows = [instance("a", EXT, "n0"), instance("b", EXT, "n1", mem=7), instance("c", EXT, "n1")]
    found = shared_instances(derive(by_hand.cluster(SIZES, rows)), np.ones(3, np.bool_))
    assert found is not None
    assert found.alike[0] == found.alike[2] != found.alike[1]


def test_mirrored_instances_are_left_to_the_search() -> None:
    state = derive(by_hand.cluster(SIZES, [instance("a", DiskTemplate.DRBD, "n0", "n1")]))
    assert shared_instances(state, np.ones(1, np.bool_)) is None


def test_an_instance_on_an_offline_node_costs_what_the_components_say() -> None:
    assert sum(each.weight for each in COMPONENTS if each.aggregate is LOST) == PER_LOST
