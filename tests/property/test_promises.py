"""What was promised is counted as if it were there."""

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.deciding.promises import Promise, with_promises
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from tests.property.narrow import several
from tests.support.trials import anew

INSTANCES = ("pnode", "snode", "peers", "tag_counts", "forthcoming_tag_counts", "template", "disk", "wants")


def placed(state: State, new: Instance, rng: Random) -> Promise | None:
    """The new instance placed anywhere, in place; None if it fits nowhere."""
    trial = anew(state, new)
    fits = np.flatnonzero(trial.codes == FITS).tolist()
    if not fits:
        return None
    index = settling.settle(state, trial.only(rng.choice(fits)))
    pnode, snode = int(state.pnode[index]), int(state.snode[index])
    names = state.names([pnode]), state.names([] if snode == NOWHERE else [snode])
    row = replace(state.cluster.instances[index], pnode=names[0][0], snode=next(iter(names[1]), None))
    return Promise(row, new=True)


def assert_alike(state: State, expected: State) -> None:
    for name in expected.columns._fields:
        if name != "fail_n1":  # judged by other rules once something changes
            ours, theirs = getattr(state.columns, name), getattr(expected.columns, name)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9, err_msg=name)
    for name in INSTANCES:
        np.testing.assert_array_equal(getattr(state, name), getattr(expected, name), err_msg=name)


@settings(max_examples=60)
@given(case=several, rng=st.randoms(use_true_random=False))
def test_promised_instance_counts_as_if_placed(
    case: tuple[Cluster, tuple[Instance, ...]], rng: Random
) -> None:
    described, new = case
    state = derive(described, new)
    promises = [promise for row in new if (promise := placed(state, row, rng))]
    made, names = with_promises(described, promises)
    assert names == [promise.name for promise in promises]
    assert_alike(derive(made, new), state)
    assert with_promises(described, promises, own=[row.name for row in new]) == (described, [])
    nodes = {name for promise in promises for name in (promise.row.pnode, promise.row.snode)}
    for before, after in zip(described.nodes, made.nodes, strict=True):
        listed = any(unit.desired.type.pool for unit in before.storage or ())
        assert after is before or before.name in nodes or listed
    assert all(a is b for a, b in zip(described.instances, made.instances, strict=False))
    added = made.instances[len(described.instances) :]
    assert all(row is promise.row for row, promise in zip(added, promises, strict=True))
