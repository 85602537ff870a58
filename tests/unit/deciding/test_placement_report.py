import pytest

from ganeti_htools.deciding.placement_report import MAX_OTHERS, placement_report
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

SIZES = {f"n{number}": 10_000 for number in range(6)}
CROWDED = cluster(SIZES, [instance(name, DiskTemplate.EXT, "n0", mem=4000) for name in ("a.org", "b.org")])


def test_best_other_placements_come_first() -> None:
    told = placement_report(CROWDED, "a")
    assert (told.instance, told.group, told.nodes) == ("a.org", "group1", ["n0"])
    assert (told.tried, told.fit) == (5, 5)
    state = derive(CROWDED)
    assert told.score == score_of(state, state.group == 0)
    scores = [other.score for other in told.others]
    assert len(scores) == MAX_OTHERS
    assert scores == sorted(scores)
    assert scores[0] < told.score
    assert all(len(other.nodes) == 1 and other.nodes != ["n0"] for other in told.others)


def test_instance_that_cannot_move_has_no_other_placements() -> None:
    told = placement_report(
        cluster({"n0": 10_000, "n1": 10_000}, [instance("a", DiskTemplate.PLAIN, "n0")]), "a"
    )
    assert (told.others, told.tried, told.fit) == ([], 0, 0)


def test_unknown_instance_is_refused() -> None:
    with pytest.raises(HtoolsError, match="Unknown instance: c"):
        placement_report(CROWDED, "c")
