import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli import hail
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand, messages
from tests.support.clusters import Json, Shape, cluster

DATA = cluster(3, Shape(nodes=4, instances=4, fill=0.3, offline=1))


def explained(tmp_path: Path, request: Json, *options: str) -> int:
    path = tmp_path / "request"
    path.write_text(messages.encode(messages.message(DATA, request)))
    return hail.main([str(path), "--explain", *options])


@pytest.mark.parametrize(("template", "count"), [("plain", 1), ("drbd", 2)])
def test_explain_tells_of_each_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], template: str, count: int
) -> None:
    request = messages.allocate("new.example.org", template, memory=128, disks=[1024])
    assert explained(tmp_path, request, "--no-capacity-checks") == 0
    out, err = capsys.readouterr()
    title, header, *rows, last = out.splitlines()
    assert title.startswith(f"Places for new.example.org, {template}, score without it ")
    assert header.split() == ["Nodes", "Score", "Change", "By", "component,", "weighted"]
    before, places = float(title.split()[-1].rstrip(":")), {}
    for row in rows:
        nodes, score, *rest = row.split()
        if score == "offline":
            assert not rest
            continue
        places[nodes] = float(score)
        assert len(nodes.split(":")) == count
        assert float(rest[0]) == pytest.approx(float(score) - before, abs=2e-8)
        parts = [float(re.sub(r"^.*?(?=[+-]\d+\.\d+$)", "", part)) for part in rest[1:]]
        assert sum(parts) == pytest.approx(float(rest[0]), abs=1e-5)
    assert {row.split()[0].split(":")[0] for row in rows} == set(DATA["nodes"])
    assert list(places.values()) == sorted(places.values())
    assert "offline" in rows[-1]
    assert len(rows) == len(places) + 1 == 4
    assert last == f"Chosen: {min(places, key=lambda nodes: places[nodes]).replace(':', ', ')}"
    assert not err


def test_without_disk_figures_memory_alone_judges_redundancy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Ganeti's requests for shared storage are."""
    nodes = {
        name: node if node["offline"] else {**node, "total_disk": 0, "free_disk": 0}
        for name, node in DATA["nodes"].items()
    }
    new = messages.allocate("new.example.org", "sharedfile", memory=128)
    answers = []
    for data in DATA, {**DATA, "nodes": nodes}:
        path = tmp_path / "request"
        path.write_text(messages.encode(messages.message(data, new)))
        assert hail.main([str(path)]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    known, lacking = answers
    assert lacking["success"]
    assert lacking["result"] == known["result"]
    assert lacking["info"].endswith("; N+1 is judged without disk space, which the request lacks")


def test_explain_says_why_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = messages.allocate("new.example.org", memory=10**6)
    assert explained(tmp_path, request) == 0
    *_, last = lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[2:6]].count("FailMem") == 3
    assert last.startswith("No place: ")
    only = sorted(DATA["nodes"])[0]
    assert explained(tmp_path, request, f"--restrict-allocation-to={only}") == 0
    assert "not to be used" in capsys.readouterr().out


def test_explain_tells_of_each_instance_in_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wishes = [messages.allocate(f"new{i}.example.org", "plain", memory=128, disks=[1024]) for i in (1, 2)]
    assert explained(tmp_path, messages.multi_allocate(wishes), "--no-capacity-checks") == 0
    first, second = capsys.readouterr().out.split("\n\n")
    chosen = [part.splitlines()[-1].removeprefix("Chosen: ") for part in (first, second)]
    (place,) = (row.split() for row in first.splitlines() if row.split()[0] == chosen[0])
    assert second.startswith("Places for new2.example.org, plain, score without it ")
    # The second is to be placed on the cluster with the first.
    before = float(second.splitlines()[0].split()[-1].rstrip(":"))
    assert before == pytest.approx(float(place[1]), abs=2e-8)


def test_explain_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = messages.allocate("new.example.org", "drbd", memory=128, disks=[1024])
    assert explained(tmp_path, request, "--no-capacity-checks", "--json") == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["instance"], told["disk_template"], told["why"]) == ("new.example.org", "drbd", None)
    assert [place["nodes"][0] for place in told["places"]] == list(DATA["nodes"])
    assert [place["why"] for place in told["places"] if "why" in place] == ["offline"]
    scores = {tuple(place["nodes"]): place for place in told["places"] if "why" not in place}
    best = min(scores, key=lambda nodes: scores[nodes]["score"])
    assert told["chosen"] == list(best)
    for place in scores.values():
        parts = place["components"].values()
        change = sum(part["weight"] * (part["after"] - part["before"]) for part in parts)
        assert place["change"] == pytest.approx(place["score"] - told["score"])
        assert place["change"] == pytest.approx(change, abs=1e-6)


def test_explain_where_an_instance_can_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = cluster(3, Shape(nodes=5, instances=4, groups=2, fill=0.3, templates={"ext": 1}))
    name = next(iter(data["instances"]))
    (here,) = data["instances"][name]["nodes"]
    path = tmp_path / "request"
    path.write_text(messages.encode(messages.message(data, messages.relocate(data, name))))
    assert hail.main([str(path), "--explain", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert [place["nodes"] for place in told["places"]] == [[node] for node in data["nodes"]]
    group = data["nodes"][here]["group"]
    for place in told["places"]:
        (node,) = place["nodes"]
        if node == here:
            assert place["why"] == "has it already"
        elif data["nodes"][node]["group"] != group:
            assert place["why"] == "in another group"
        else:
            assert "score" in place
    assert told["chosen"] in [place["nodes"] for place in told["places"] if "score" in place]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_explain_where_lost_allocations_decide(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    data = cluster(3, Shape(nodes=4, instances=4, fill=0.3, templates={"plain": 1}, exclusive_storage=True))
    request = messages.allocate("new.example.org", "plain", memory=128, disks=[1024])
    request["disks"][0]["spindles"] = 1
    path = tmp_path / "request"
    path.write_text(messages.encode(messages.message(data, request)))
    assert hail.main([str(path)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert hail.main([str(path), "--explain", *options]) == 0
    out = capsys.readouterr().out
    if options:
        (told,) = json.loads(out)
        assert told["score"] is None
        assert told["chosen"] == answer["result"]
        ranks = {tuple(place["nodes"]): (place["lost"], place["disk_left"]) for place in told["places"]}
        assert ranks[tuple(told["chosen"])] == min(ranks.values())
        (lost, disk) = ranks[tuple(told["chosen"])]
        assert f"score: ([{','.join(map(str, lost))}],{disk})" in answer["info"]
    else:
        title, header, first, *_, last = out.splitlines()
        assert title == "Places for new.example.org, plain, by lost allocations:"
        assert header.split() == ["Nodes", "Lost", "allocations", "Disk", "left"]
        assert last == f"Chosen: {first.split()[0]}" == f"Chosen: {answer['result'][0]}"


def test_explain_says_if_nothing_can_be_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(tmp_path, messages.change_group(list(DATA["instances"])[:1])) == 0
    assert capsys.readouterr().out.endswith("\nNo place: no groups for evacuation: allowed groups was []\n")


def test_the_groups_that_could_take_each_instance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = cluster(3, Shape(nodes=9, instances=12, groups=3, fill=0.3, templates={"ext": 1}))
    wishes = [messages.allocate(f"new{i}", "plain", memory=128, disks=[1024]) for i in (1, 2)]
    path = tmp_path / "request"
    huge = messages.allocate("huge", "plain", memory=10**6) | {"group_name": "group2"}
    for request in (wishes[0], messages.multi_allocate([*wishes, huge])):
        path.write_text(messages.encode(messages.message(data, request)))
        assert hail.main([str(path)]) == 0
        usual = json.loads(capsys.readouterr().out)
        assert hail.main([str(path), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        ranking = {each["instance"]: each["groups"] for each in told.pop("ranking")}
        assert told == usual
        names = [group["name"] for group in data["nodegroups"].values()]
        for name in ranking.keys() - {"huge"}:
            assert sorted(group["group"] for group in ranking[name]) == sorted(names)
        assert ranking.get("huge", []) == []
        best = ranking["new1"][0]
        assert best.keys() == {"group", "alloc_policy", "score", "nodes"}
        result = told["result"]
        assert best["nodes"] == (result if request is wishes[0] else dict(result[0])["new1"])
    assert "; next best group: " not in told["info"]


def test_one_group_is_no_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = cluster(3, Shape(nodes=3, instances=4, fill=0.3))
    path = tmp_path / "request"
    request = messages.allocate("new", "plain", memory=128, disks=[1024])
    path.write_text(messages.encode(messages.message(data, request)))
    assert hail.main([str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "next best" not in told["info"]
    assert [[group["nodes"] for group in each["groups"]] for each in told["ranking"]] == [[told["result"]]]


def test_exclusive_storage_has_no_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = Shape(nodes=6, instances=6, groups=2, templates={"plain": 1}, fill=0.2, exclusive_storage=True)
    data = cluster(3, shape)
    path = tmp_path / "request"
    request = messages.allocate("new", "plain", memory=128, disks=[1024], spindles=1)
    path.write_text(messages.encode(messages.message(data, request)))
    assert hail.main([str(path), "--json"]) == 0
    (each,) = json.loads(capsys.readouterr().out)["ranking"]
    assert len(each["groups"]) == 2
    for group in each["groups"]:
        assert group.keys() == {"group", "alloc_policy", "lost", "disk_left", "nodes"}


def test_evacuation_into_another_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = cluster(4, Shape(nodes=9, instances=30, groups=3, templates={"ext": 1}, fill=0.3))
    node = data["instances"][next(iter(data["instances"]))]["nodes"][0]
    for each in data["nodes"].values():
        if each["group"] == data["nodes"][node]["group"]:
            each["free_memory"] = 100
    path, saved = tmp_path / "request", tmp_path / "saved"
    path.write_text(messages.encode(messages.message(data, messages.node_evacuate(data, node, "all"))))
    assert hail.main([str(path)]) == 0
    assert not json.loads(capsys.readouterr().out)["result"][0]
    assert hail.main([str(path), "--inter-group", "-S", str(saved)]) == 0
    moved, failed, jobs = json.loads(capsys.readouterr().out)["result"]
    assert (len(moved), failed) == (len(jobs), [])
    after = text.parse((tmp_path / "saved.post-ialloc").read_text(), "saved")
    places = {row.name: [row.pnode] for row in after.instances}
    assert {name: nodes for name, _, nodes in moved} == {name: places[name] for name, _, _ in moved}
    # A group without nodes may be one that the request leaves out.
    data["nodegroups"]["empty"] = next(iter(data["nodegroups"].values())) | {"name": "empty"}
    path.write_text(messages.encode(messages.message(data, messages.node_evacuate(data, node, "all"))))
    assert hail.main([str(path), "--inter-group"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert not told["result"][0]
    assert told["info"].endswith("; other groups are not considered: the request has no nodes of group empty")


FULL = by_hand.cluster(
    {"n0": 4000, "n1": 4000, "n2": 4000},
    [
        by_hand.instance("a", DiskTemplate.EXT, "n0", mem=2000),
        by_hand.instance("b", DiskTemplate.EXT, "n1", mem=1500),
        by_hand.instance("c", DiskTemplate.EXT, "n2", mem=1000, tags=("htools:fixed",)),
    ],
)


def room_for(tmp_path: Path, memory: int, *options: str, cluster: Cluster = FULL) -> int:
    """Ask for room for an instance on shared storage."""
    (tmp_path / "cluster").write_text(text.dump(cluster))
    (tmp_path / "request").write_text(
        messages.encode(messages.message(DATA, messages.allocate("new", "ext", memory=memory, disks=[1024])))
    )
    given = str(tmp_path / "request"), "-t", str(tmp_path / "cluster"), "--no-capacity-checks"
    return hail.main([*given, "--make-room", *options])


def test_make_room_shows_the_moves_and_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert room_for(tmp_path, 3500, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    (step,) = found["steps"]
    assert found["why"] is None
    assert "most missing: memory" in found["refusal"]
    assert (step["instance"], step["mib"], found["mib"]) == ("b", 1500, 1500)
    assert step["commands"] == [f"gnt-instance migrate -f -n {step['node']} b"]
    assert room_for(tmp_path, 3500) == 0
    first, second, header, move, command = capsys.readouterr().out.splitlines()
    assert first.startswith("new finds no place: ")
    assert second.startswith(f"It finds one on {found['nodes'][0]} after 1 move (")
    assert header.split()[0] == "Instance"
    assert move.split()[:2] == ["1.", "b"]
    assert command.strip() == step["commands"][0]


def test_make_room_without_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert room_for(tmp_path, 500) == 0
    assert capsys.readouterr().out.startswith("new finds a place without moves: n")


@pytest.mark.parametrize(
    ("memory", "options", "why"),
    [
        (5000, (), "new: no moves make room for it"),
        (3500, ("--max-moves=0",), "new: no plan of at most 0 moves makes room for it"),
        (
            3500,
            ("--max-copy=10m",),
            "new: no plan of at most 6 moves that copy at most 10 MiB makes room for it",
        ),
    ],
)
def test_make_room_says_why_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], memory: int, options: tuple[str, ...], why: str
) -> None:
    assert room_for(tmp_path, memory, *options) == 0
    assert capsys.readouterr().out.splitlines()[-1] == why


def test_make_room_needs_a_new_instance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "request"
    name = next(iter(DATA["instances"]))
    path.write_text(messages.encode(messages.message(DATA, messages.change_group([name]))))
    assert hail.main([str(path), "--make-room"]) == 1
    assert "--make-room: expected a request of type allocate" in capsys.readouterr().err
    assert (
        room_for(
            tmp_path, 500, cluster=replace(FULL, instances=(by_hand.instance("new", DiskTemplate.EXT, "n0"),))
        )
        == 1
    )
    assert "instance new exists already" in capsys.readouterr().err
