"""Verdicts about two answers, and the rows of docs/differences.md that explain them."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from ganeti_htools.backends import iallocator
from ganeti_htools.deciding.decision import Cache, prepare_request, respond
from ganeti_htools.deciding.other_answer import cluster_after, places, promises, stated_score
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.decide import decide
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.inconsistencies import inconsistencies
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.recording.decision import RecordedDecision
from ganeti_htools.witness.compare import Case, compare
from ganeti_htools.witness.program import WitnessAnswer, request_file
from ganeti_htools.witness.replay import replay
from ganeti_htools.witness.verdict import WitnessVerdict, by_places, by_score, known_difference
from tests.support.cases import TYPES, case
from tests.support.clusters import Json, Shape, cluster
from tests.support.messages import allocate, encode, message, node_evacuate
from tests.support.oracle import Oracle
from tests.support.storage_units import case_with_units

DIFFERENCES = Path(__file__).parents[3] / "docs" / "differences.md"


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ({"a": ("x", "y")}, {"a": ("x", "y")}, WitnessVerdict.SAME),
        ({}, {}, WitnessVerdict.SAME),
        ({"a": ("x", "y")}, {"a": ("y", "x")}, None),
        ({"a": ("x",)}, {"a": ("x",), "b": ("x",)}, WitnessVerdict.OURS_REFUSES),
        ({"a": ("x",)}, {}, WitnessVerdict.THEIRS_REFUSES),
        ({"a": ("x",)}, {"b": ("x",)}, WitnessVerdict.OURS_REFUSES),
    ],
)
def test_verdict_of_places(ours: Any, theirs: Any, verdict: WitnessVerdict | None) -> None:
    assert by_places(ours, theirs) is verdict


def test_verdict_of_scores() -> None:
    assert by_score(1.0, 1.00000001) is WitnessVerdict.EQUAL
    assert (by_score(1.0, 1.1), by_score(1.1, 1.0)) == (WitnessVerdict.BETTER, WitnessVerdict.WORSE)
    assert by_score(None, 1.0) is WitnessVerdict.WORSE


def parsed(data: Json, request: Json) -> iallocator.Message:
    return iallocator.read(encode(message(data, request)).encode())


def row(name: str) -> str:
    """The row of differences.md with this id."""
    (found,) = (line for line in DIFFERENCES.read_text().splitlines() if line.startswith(f"| {name} |"))
    return found


def test_known_differences_are_rows_of_the_document() -> None:
    data = cluster(2, Shape(nodes=4, instances=8, templates={"drbd": 1}))
    asked = node_evacuate(data, next(iter(data["nodes"])), "primary-only")
    name = asked["instances"][0]
    pair = tuple(data["instances"][name]["nodes"][::-1])
    evacuation = parsed(data, asked)
    closed = {name: f"its secondary {pair[0]} takes no instances"}
    assert known_difference(evacuation, {}, {name: pair}, "", closed) == "D12"
    assert known_difference(evacuation, {}, {name: pair}, "", {}) is None
    assert known_difference(evacuation, {}, None, "", {}) is None
    data["instances"][name]["nodes"] = [pair[1]]
    assert known_difference(parsed(data, asked), {}, None, "", {}) == "D10"
    new = allocate("new.example.org")
    node = next(iter(data["nodes"]))
    data["nodes"][node]["tags"] = ["htools:maintenance"]
    place = {"new.example.org": (node,)}
    assert known_difference(parsed(data, new), {}, place, "", {}) == "D11"
    for space in ("; disk space of nodes", "; N+1 is judged without disk space"):  # known, and not
        text = f"{space}, which the request lacks"
        assert known_difference(parsed(data, new), place, {}, text, {}) == "D8"
    words = {
        "D6": "instance that exists",
        "D8": "without disk figures",
        "D10": "DRBD instance without secondary in an evacuation",
        "D11": "htools:maintenance",
        "D12": "to a secondary that is drained",
        "D30": "earlier decisions",
        "D31": "Rules of tags",
    }
    assert all(text in row(name) for name, text in words.items())


@pytest.mark.parametrize("kind", TYPES)
def test_cluster_after_an_answer_is_consistent(kind: str) -> None:
    """Free amounts follow the instances: no node shows use that nobody explains, the score is the same."""
    scores = 0
    for seed in range(12):
        data = (case_with_units if seed % 2 else case)(seed, kind).text.encode()
        before = prepare_request(data, PlacementOptions(), Cache())
        read = replace(before.message, cluster=before.counting)
        found = places(read, respond(data, PlacementOptions()).answer.encode())
        memory = before.options.static_kvm_node_memory
        after = derive(cluster_after(read, promises(read, found)), (), memory)
        assert inconsistencies(after) == inconsistencies(derive(before.counting, (), memory))
        with suppress(RequestFailed):
            expected = decide(before.state, read.request, before.options).state
            assert total_score(after) == pytest.approx(total_score(expected))
            scores += 1
    assert scores


def total_score(state: State) -> float:
    return sum(score_of(state, state.group == row) for row in range(len(state.cluster.groups)))


@pytest.mark.oracle
def test_verdicts_of_real_and_of_altered_answers(oracle: Oracle) -> None:
    """Debian's hail agrees; beside its answer, others are worse, and refusals are seen."""
    data = encode(
        message(cluster(3, Shape(nodes=5, instances=12, groups=1)), allocate("new.example.org"))
    ).encode()
    ours = respond(data, PlacementOptions()).answer

    def judge(answer: str, theirs: str | None = None, error: str | None = None) -> Json:
        with request_file(data) as descriptor:
            other = WitnessAnswer(theirs, 1.0) if theirs else None
            return trio.run(compare, Case(descriptor, str(oracle.hail), (), 30.0, answer, error, other))

    first, second = json.loads(ours)["result"]
    swapped = json.dumps({**json.loads(ours), "result": [second, first]})
    refused = json.dumps({"success": False, "info": "no", "result": []})
    assert judge(ours)["verdict"] == "same"
    found = judge(swapped)
    assert (found["verdict"], found["scores"]["ours"] > found["scores"]["theirs"]) == ("worse", True)
    assert judge(refused)["verdict"] == "ours refuses"
    assert judge(ours, refused)["verdict"] == "theirs refuses"
    assert judge("", error="a defect")["verdict"] == "ours failed"
    assert judge(ours, "[]")["verdict"] == "failed"


def test_recorded_decision_is_compared_with_the_new_one() -> None:
    shape = Shape(nodes=5, instances=12, groups=1)
    data = encode(message(cluster(3, shape), allocate("new.example.org"))).encode()
    answer = respond(data, PlacementOptions()).answer

    def again(recorded: Json, *arguments: str) -> Json:
        content = json.dumps(recorded)
        return replay(RecordedDecision("id", 1.0, "0", arguments, data, None, (), None, content), None)

    found = json.loads(answer)
    first, second = found["result"]
    swapped = again({**found, "result": [second, first]})
    assert (swapped["verdict"], swapped["exact"]) == ("better", False)
    assert swapped["scores"]["ours"] == pytest.approx(stated_score(found["info"], (first, second)))
    assert swapped["instances"][0]["theirs"] == (second, first)
    assert again({"success": False, "info": "no", "result": []})["verdict"] == "theirs refuses"
    failed = again(found, "--nonsense")
    assert (failed["verdict"], failed["ours"], "nonsense" in failed["error"]) == ("ours failed", None, True)
