"""Plans that make room: their review, what is left of their limits, and what they claim."""

from dataclasses import replace
from unittest import mock

import orjson
import pytest

from ganeti_htools.cli.report.room import text
from ganeti_htools.engine import making_room
from ganeti_htools.engine.decide import place_instance
from ganeti_htools.engine.making_room import LONGEST
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import DataError, RequestFailed
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.making_room import MAKE_ROOM, MakeRoomOptions, RoomPlan
from tests.support import by_hand, messages

ROWS = [
    by_hand.instance("a", DiskTemplate.EXT, "n0", mem=2000),
    by_hand.instance("b", DiskTemplate.EXT, "n1", mem=1500),
    by_hand.instance("c", DiskTemplate.EXT, "n2", mem=1000, tags=("htools:fixed",)),
]
SIZES = dict.fromkeys(("n0", "n1", "n2"), 4000)
FULL = by_hand.cluster(SIZES, ROWS)
REQUEST = orjson.dumps(messages.allocate("new", "ext", memory=3500, disks=[1024])).decode()
OPTIONS = MakeRoomOptions(request=REQUEST, check_redundancy=False)


def plan(cluster: Cluster = FULL, options: MakeRoomOptions = OPTIONS) -> RoomPlan:
    return MAKE_ROOM.plan(MAKE_ROOM.state_of(cluster, options), options, lambda _text: None)


def test_jobs_name_the_room_that_they_make() -> None:
    (((job,),), made) = plan().jobs(), plan()
    assert (job.title, made.nodes, made.purpose) == ("b: n1 => n2", ["n1"], "making room for new")
    assert job.room is not None
    assert (job.room.name, job.room.pnode, job.room.snode) == ("new", "n1", None)


def test_restored_plan_is_the_same() -> None:
    state = MAKE_ROOM.state_of(FULL, OPTIONS)
    again = MAKE_ROOM.restore(state, OPTIONS, orjson.loads(orjson.dumps(plan().describe())))
    assert again.describe() == plan().describe()
    assert again.jobs() == plan().jobs()
    with pytest.raises(DataError, match="unexpected form"):
        MAKE_ROOM.restore(state, OPTIONS, {"steps": []})


def moved(name: str, node: str) -> Cluster:
    rows = [replace(row, pnode=node) if row.name == name else row for row in ROWS]
    return by_hand.cluster(SIZES, rows)


def test_room_is_made_by_more_moves_than_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node has to give all its instances to the others, each of which takes two."""
    monkeypatch.setattr(making_room, "PATIENCE", 300)
    names = [f"n{number}" for number in range(7)]
    rows = [
        by_hand.instance(f"i{name}{row}", DiskTemplate.EXT, name, mem=1000)
        for name in names
        for row in range(9)
    ]
    cluster = by_hand.cluster(dict.fromkeys(names, 11_500), rows)
    request = orjson.dumps(messages.allocate("new", "ext", memory=11_400, disks=[1024])).decode()
    options = replace(OPTIONS, request=request)
    found = plan(cluster, options).describe()
    assert len(found["steps"]) == 9
    assert found["search_ended"]
    assert found["at_least"] == 9
    assert "another plan of as many moves may copy less" in text(found)
    assert "another plan may do with 5 moves, or copy less" in text({**found, "at_least": 5})
    with pytest.raises(RequestFailed, match="no plan of at most 8 moves"):
        plan(cluster, replace(options, max_moves=8))


def test_search_ends_early_where_places_have_many_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule of tags refuses all nodes, so each move could make room."""
    tags, names = ("htools:apart:x",), [f"n{number}" for number in range(9)]
    rows = [by_hand.instance(f"i{name}", DiskTemplate.EXT, name, mem=100, tags=tags) for name in names]
    rows += [replace(row, name=f"other-{row.name}", tags=()) for row in rows]
    request = messages.allocate("new", "drbd", memory=200, disks=[1024], tags=tags)
    options = replace(OPTIONS, request=orjson.dumps(request).decode())
    monkeypatch.setattr(making_room, "PATIENCE", 60)
    cluster, counts = by_hand.cluster(dict.fromkeys(names, 5_000), rows), []
    for pairs in (10_000, 1):
        monkeypatch.setattr(making_room, "PAIRS", pairs)
        with mock.patch.object(making_room, "place_instance", wraps=place_instance) as spy:
            with pytest.raises(RequestFailed, match="the search ended after 60 tries"):
                plan(cluster, options)
            counts.append(spy.call_count)
    assert counts[1] < 10 < 30 < counts[0]


NEW = by_hand.instance("new", DiskTemplate.EXT, "n1", mem=100)
BESIDE = by_hand.instance("d", DiskTemplate.EXT, "n1", mem=700, tags=("htools:fixed",))


@pytest.mark.parametrize(
    ("cluster", "obstacle"),
    [
        (FULL, None),
        (moved("b", "n0"), "instance b is on n0, not on n1"),
        (by_hand.cluster(SIZES, [*ROWS, NEW]), "instance new exists already"),
        (
            by_hand.cluster(SIZES, [*ROWS, BESIDE]),
            "instance new would not fit on n1 after the remaining moves",
        ),
    ],
)
def test_review_finds_what_has_changed(cluster: Cluster, obstacle: str | None) -> None:
    made = plan()
    said = list[str]()
    review = made.review("stop", lambda *lines: said.extend(lines))(cluster, made.jobs(), 0)
    assert (review.obstacle, review.plan) == (obstacle, None)
    assert said == []


def test_new_plan_makes_room_elsewhere() -> None:
    made = plan()
    cluster = by_hand.cluster(SIZES, [*ROWS, BESIDE])
    review = made.review("replan", lambda *_lines: None)(cluster, made.jobs(), 0)
    assert review.plan is not None
    (((job,),)) = review.plan
    assert job.room is not None
    assert (job.title, job.room.pnode) == ("a: n0 => n2", "n0")
    with pytest.raises(RequestFailed, match="new: no plan of at most 0 moves makes room for it"):
        made.review("replan", lambda *_lines: None)(cluster, made.jobs(), LONGEST)


def test_request_of_another_type() -> None:
    wrong = replace(OPTIONS, request=orjson.dumps(messages.change_group(["a"])).decode())
    with pytest.raises(DataError, match="expected a request of type allocate, got change-group"):
        plan(options=wrong)
