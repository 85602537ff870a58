import numpy as np

from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.clusters import Shape
from tests.support.rows import generated

INSTANCES = (
    instance("mirrored", DiskTemplate.DRBD, "n0", "n1", mem=100),
    instance("local", DiskTemplate.PLAIN, "n0"),
    instance("shared", DiskTemplate.EXT, "n1", mem=300),
    instance("diskless", DiskTemplate.DISKLESS, "n1"),
    instance("also mirrored", DiskTemplate.DRBD, "n1", "n2", mem=200),
)


def everyone(state: State) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.ones(len(state.pnode), np.bool_)


def test_batches_group_instances_by_storage() -> None:
    state = derive(by_hand.cluster({"n0": 9000, "n1": 9000, "n2": 9000}, INSTANCES))
    batches, _ = batches_of(state, everyone(state))
    assert [batch.rows.tolist() for batch in batches] == [[0, 4], [2, 3]]
    assert [batch.asked.mirrored for batch in batches] == [True, False]
    assert np.asarray(batches[0].asked.mem).tolist() == [100, 200]


def test_instances_that_stay_are_in_no_batch() -> None:
    state = derive(by_hand.cluster({"n0": 9000, "n1": 9000, "n2": 9000}, INSTANCES))
    batches, _ = batches_of(state, np.arange(5) == 4)
    assert [batch.rows.tolist() for batch in batches] == [[4]]


def test_take_selects_members_of_a_batch() -> None:
    state = derive(by_hand.cluster({"n0": 9000, "n1": 9000, "n2": 9000}, INSTANCES))
    (batch, _), _ = batches_of(state, everyone(state))
    twice = batch.take(np.array([1, 0, 1]))
    assert twice.rows.tolist() == [4, 0, 4]
    assert np.asarray(twice.asked.mem).tolist() == [200, 100, 200]


def test_facts_of_nodes_are_kept_up_to_date() -> None:
    shape = Shape(nodes=5, instances=20, templates={"drbd": 1}, tags=("exclusion",))
    state = derive(generated(3, shape))
    _, facts = batches_of(state, everyone(state))
    trial = move(state, state.instance(0), MoveKind.FAILOVER, None, np.ones(5, np.bool_), force=True)
    settling.settle(state, trial)
    facts.refresh(np.array([int(node.rows[0]) for node in trial.changes]))
    _, fresh = batches_of(state, everyone(state))
    for name in ("present", "others", "unmet", "reserved"):
        assert np.array_equal(getattr(facts, name), getattr(fresh, name)), name
