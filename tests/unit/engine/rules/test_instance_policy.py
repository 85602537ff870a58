"""The policy of each target's group decides about an instance."""

from dataclasses import replace

import numpy as np

from ganeti_htools.engine.rules import instance_policy
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.model.cluster import Cluster, Group, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.policy import DEFAULT_IPOLICY, MinMax
from ganeti_htools.model.types import DiskTemplate, Fail
from tests.support.by_hand import instance, node

(USUAL,) = DEFAULT_IPOLICY.minmax
SMALL = replace(DEFAULT_IPOLICY, minmax=(MinMax(USUAL.min, replace(USUAL.max, memory_size=1_000)),))
CLUSTER = Cluster(
    (Group("usual", "uuid-1"), Group("small", "uuid-2", ipolicy=SMALL)),
    (node("a"), node("b", group="uuid-2"), node("c", excl_stor=True)),
    (),
)


def new(mem: int) -> Instance:
    return instance("new", DiskTemplate.PLAIN, "", mem=mem)


def test_one_group_refuses_an_instance_that_another_takes() -> None:
    """The disk does not say how many spindles it takes, so no policy takes it with exclusive storage."""
    state = derive(CLUSTER)
    targets = np.array([2, 1, 0, 1])
    memory, spindles = CODE[Fail.MEM], CODE[Fail.SPINDLES]
    small = instance_policy.policy_codes(state, state.requested_instance(new(1_000)), targets)
    assert small.tolist() == [spindles, FITS, FITS, FITS]
    large = instance_policy.policy_codes(state, state.requested_instance(new(1_001)), targets)
    assert large.tolist() == [spindles, memory, FITS, memory]


def test_several_demands_have_a_row_each() -> None:
    state = derive(CLUSTER)
    demands = [new(1_000).demand, new(1_001).demand]
    found = instance_policy.codes_of(state, demands, np.array([0, 1]))
    assert found.tolist() == [[FITS, FITS], [FITS, CODE[Fail.MEM]]]
