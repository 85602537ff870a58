"""A plan is reviewed on the cluster that it was made for: with claims, reservations, units and classes."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.balancing import recheck
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.moves import NamedMove
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.planning import view
from ganeti_htools.planning.balancing import hbal
from ganeti_htools.planning.groups.hregroup import reported
from htoolsd.sync.reserved_room import Reservations, with_promises_reserved
from tests.support.classes import GPU, with_classes
from tests.support.super_clusters import super_cluster

OPTIONS = hbal.HbalOptions(
    view=view.View(static_kvm_node_memory=0),
    balancing=BalancingOptions(max_length=6, min_gain=0.0),
    all_groups=True,
)


def promised(rng: Random, cluster: Cluster) -> Cluster:
    """The cluster with resources of some nodes reserved, and promised to instances that do not exist yet."""
    promises = {
        node.name: {"MEMORY_MB": rng.choice((100, 400)), "VCPU": 1, GPU: 1, "CUSTOM_DISK_MIB_LVM_VG": 50}
        for node in cluster.nodes
        if rng.random() < 0.5
    }
    return with_promises_reserved(with_classes(rng, cluster), Reservations(promises=promises))


@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 30))
def test_rest_of_plan_fits_after_every_jobset(seed: int) -> None:
    rng = Random(seed)
    cluster = promised(rng, super_cluster(rng, classes=False))
    proposal = hbal.HBAL.propose(cluster, OPTIONS, lambda _text: None)
    check, before = proposal.review("stop", lambda *_: None), hbal.state_of(cluster, OPTIONS)
    now, everywhere = before.copy(), np.ones(len(before.group), np.bool_)
    for number, jobs in enumerate(proposal.jobs):
        assert check(reported(before, now), proposal.jobs[number:], number).obstacle is None
        steps = [job.step for job in jobs if isinstance(job.step, NamedMove)]
        movable = view.movable(now, OPTIONS.view)
        assert recheck.obstacle(now, everywhere, steps, OPTIONS.balancing, movable) is None
