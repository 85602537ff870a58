"""Requests of Ganeti's master, as far as no other test has them."""

from typing import Any

import pytest

from ganeti_htools.backends import iallocator
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.types import Status
from tests.support import messages
from tests.support.clusters import Shape, cluster


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("up", Status.RUNNING),
        ("down", Status.DOWN),
        ("offline", Status.OFFLINE),
        *((state, Status.RUNNING) for state in ("paused", "", None, 5, ["down"])),
    ],
)
def test_unknown_admin_state_counts_as_up(state: Any, status: Status) -> None:
    data = cluster(1, Shape(nodes=3, instances=2, templates={"ext": 1}))
    message = messages.message(data, messages.allocate("new", "ext"))
    first = next(iter(message["instances"].values()))
    first["admin_state"] = state
    assert iallocator.read(messages.encode(message).encode()).cluster.instances[0].status is status


@pytest.mark.parametrize("offline", [True, False])
def test_refuses_a_node_that_is_capable_in_no_way(offline: bool) -> None:
    data = cluster(1, Shape(nodes=3, instances=0))
    next(iter(data["nodes"].values())).update(offline=offline, vm_capable=1)
    message = messages.encode(messages.message(data, messages.allocate("new")))
    with pytest.raises(DataError, match="key 'vm_capable': Unable to read Bool, expected true or false"):
        iallocator.read(message.encode())
