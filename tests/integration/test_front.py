"""Plans of ``hbal --front`` on a real Ganeti: the one that is picked is carried out, and no other."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.cluster import add_shared, jobs, nodes_of, remove, run
from tests.integration.daemon import Daemon
from tests.support.programs import PROGRAMS

pytestmark = pytest.mark.integration

NAMES = [f"uneven{number}" for number in range(1, 7)]


@pytest.fixture
def uneven() -> Iterator[None]:
    """Instances that are all on one node, though the group has another."""
    add_shared(dict.fromkeys(NAMES, "node4"))
    yield
    remove(*NAMES)


def hbal(*words: str) -> Any:
    """The report of hbal."""
    (out,) = run([PROGRAMS / "hbal", "-G", "other", *words, "--json"])
    return json.loads(out)


@pytest.mark.usefixtures("uneven")
def test_picked_plan_is_carried_out() -> None:
    """The usual plan has more moves."""
    with Daemon() as daemon:
        for source in "-L", "-D":
            daemon.refresh()
            picked = "--front", "--pick=1", source
            shown, last = hbal(*picked), jobs()[-1].number
            assert len(hbal(source)["steps"]) > len(shown["steps"]) == 1
            done = hbal(*picked, "-X")
            assert done["execution"]["ending"] == "done"
            assert done["steps"] == shown["steps"]
            moved = {step["instance"]: step["to"] for step in shown["steps"]}
            assert {name: nodes_of(name) for name in moved} == moved
            assert [job.summary for job in jobs(after=last)] == [
                f"INSTANCE_MIGRATE({name})" for name in moved
            ]
