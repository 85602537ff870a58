"""An instance without a metadata unit gets the place of one that names its group's unit."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.engine.decide import decide
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.disk_defaults import with_disk_defaults
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import Allocate, MultiAllocate, Placement, Request
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.property.narrow import cases
from tests.support.plain_storage import has_room
from tests.support.plain_storage import told as units_told

OPTIONS = PlacementOptions(capacity=False)
KEYS = st.sampled_from(("xenvg", "ssdvg", "hddvg", "other", None))


def outcome(cluster: Cluster, row: Instance, request: Request) -> tuple[list[str], str]:
    """The nodes, and the text."""
    try:
        decision = decide(derive(cluster, (row,)), request, OPTIONS)
    except RequestFailed as failed:
        return [], str(failed)
    assert isinstance(decision.result, tuple)
    (placed,) = decision.result
    return [cluster.nodes[node].name for node in placed.nodes], placed.info


@settings(max_examples=20)
@given(case=cases, keys=st.tuples(KEYS, KEYS))
def test_each_group_places_disks_on_its_own_defaults(
    case: tuple[State, Instance], keys: tuple[str | None, str | None]
) -> None:
    state, new = case
    new = replace(new, template=DiskTemplate.DRBD)
    groups = tuple(replace(group, metavg=key) for group, key in zip(state.cluster.groups, keys, strict=False))
    cluster, silent = replace(state.cluster, groups=groups), state.cluster
    for group in groups:
        explicit = with_disk_defaults(group, new)
        ours = outcome(cluster, new, MultiAllocate((Placement(new, 2, group.name),)))
        assert ours == outcome(silent, explicit, MultiAllocate((Placement(explicit, 2, group.name),)))
    chosen, text = outcome(cluster, new, Allocate(Placement(new, 2)))
    if len({group.metavg for group in groups}) == 1:
        explicit = with_disk_defaults(groups[0], new)
        assert (chosen, text) == outcome(silent, explicit, Allocate(Placement(explicit, 2)))
    if not units_told(silent) or state.columns.excl_stor.any():
        return
    for node in (node for node in silent.nodes if node.name in chosen):
        (group,) = (group for group in groups if group.uuid == node.group)
        assert has_room(silent, with_disk_defaults(group, new), node)
