from ganeti_htools.cli.report import losses
from ganeti_htools.engine.redundancy.health import lose, tolerance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance

STATE = derive(
    by_hand.cluster(
        {"n0": 10_000, "n1": 10_000},
        [
            instance("mirrored", DiskTemplate.DRBD, "n0", "n1"),
            instance("local", DiskTemplate.PLAIN, "n0"),
            instance("large", DiskTemplate.EXT, "n0", mem=9500),
        ],
    )
)
LOSS = lose(STATE, 0)
TOLERANCES = {0: tolerance(STATE, STATE.group == 0)}


def test_instances_without_their_data_are_always_listed() -> None:
    brief = losses.as_text(STATE, [LOSS], TOLERANCES, everything=False).splitlines()
    everything = losses.as_text(STATE, [LOSS], TOLERANCES, everything=True).splitlines()
    assert brief[0] == everything[0]
    assert brief[0].startswith("Without node n0: ")
    assert set(everything) - set(brief) == {"    mirrored fails over to n1"}
    assert "    local is recreated, without its data, on n1" in brief
    assert "    large does not come back" in brief
    assert brief[-1].startswith("Group group1: Node failures survived")


def test_json_counts_what_text_lists() -> None:
    document = losses.as_json(STATE, [LOSS], TOLERANCES)
    (lost,) = document["lost"]
    assert (lost["with_data"], lost["without_data"], lost["not_back"], lost["survived"]) == (1, 1, 1, False)
    assert {each["name"]: each["node"] for each in lost["instances"]} == {
        "mirrored": "n1",
        "local": "n1",
        "large": None,
    }
    assert document["tolerated_losses"] == {"group1": TOLERANCES[0].intact}
