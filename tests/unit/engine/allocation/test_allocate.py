"""The groups that are tried for a new instance, and the chosen one."""

from dataclasses import replace

import pytest

from ganeti_htools.engine.allocation.allocate import best_outcome, in_group, in_groups, usable_nodes
from ganeti_htools.model.cluster import Cluster, Group, Nic
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import AllocPolicy, DiskTemplate
from tests.support.by_hand import instance, node

OPTIONS = PlacementOptions(capacity=False)


def state_of(*policies: AllocPolicy, networks: tuple[str, ...] = ("net",)) -> State:
    """Groups of two nodes each, of which the last alone has a network."""
    groups = [Group(f"group{i}", f"uuid-{i}", policy) for i, policy in enumerate(policies)]
    groups[-1] = replace(groups[-1], networks=networks)
    nodes = [node(f"n{i}{j}", group=group.uuid) for i, group in enumerate(groups) for j in range(2)]
    return derive(Cluster(tuple(groups), tuple(nodes), ()))


def asked_of(state: State, template: DiskTemplate = DiskTemplate.PLAIN, *networks: str) -> RequestedInstance:
    nics = tuple(Nic(network=network) for network in networks)
    return state.requested_instance(replace(instance("new", template, ""), nics=nics))


def test_candidates() -> None:
    made = state_of(AllocPolicy.PREFERRED)
    scope = made.group == 0
    assert usable_nodes(made, scope, None).tolist() == [0, 1]
    assert usable_nodes(made, scope, ["n01", "unknown"]).tolist() == [1]


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ((AllocPolicy.PREFERRED, AllocPolicy.PREFERRED), 1),  # of equally good ones the last
        ((AllocPolicy.PREFERRED, AllocPolicy.LAST_RESORT), 0),
        ((AllocPolicy.LAST_RESORT, AllocPolicy.UNALLOCABLE), 0),
        ((AllocPolicy.UNALLOCABLE, AllocPolicy.UNALLOCABLE), None),
    ],
)
def test_the_most_willing_group_wins(policies: tuple[AllocPolicy, ...], expected: int | None) -> None:
    state = state_of(*policies)
    outcomes = in_groups(state, asked_of(state), 1, OPTIONS, range(2))
    best = best_outcome(state, outcomes)
    assert (best and best.group) == expected
    assert [outcome.group for outcome in outcomes] == [0, 1]
    # A group that is named is used even so.
    assert in_group(state, asked_of(state), 1, 1, OPTIONS).solution is not None


def test_a_group_without_the_network() -> None:
    state = state_of(AllocPolicy.PREFERRED, AllocPolicy.LAST_RESORT)
    asked = asked_of(state, DiskTemplate.PLAIN, "net")
    outcomes = in_groups(state, asked, 1, OPTIONS, range(2))
    best = best_outcome(state, outcomes)
    assert best is not None
    assert best.group == 1
    assert [outcome.unconnected for outcome in outcomes] == [True, False]
    with pytest.raises(RequestFailed, match=r"^The group group0 is not connected to a network required by"):
        in_group(state, asked, 1, 0, OPTIONS)


def test_too_few_nodes() -> None:
    state = state_of(AllocPolicy.PREFERRED)
    for count, restrict_to, why in ((1, (), "No online nodes"), (2, ("n00",), "Not enough online nodes")):
        options = replace(OPTIONS, restrict_to=restrict_to)
        with pytest.raises(RequestFailed, match=f"^{why}$"):
            in_group(state, asked_of(state, DiskTemplate.DRBD), count, 0, options)
