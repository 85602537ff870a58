"""Answers of other iallocators. Ours, read as if it were another's, promises what we promise."""

import orjson
import pytest

from ganeti_htools.commandline.parameters import parse_options
from ganeti_htools.deciding import other_answer
from ganeti_htools.deciding.decision import Response, respond
from ganeti_htools.model.errors import DataError
from tests.support.cases import TYPES, case


def answered(seed: int, kind: str) -> Response:
    asked = case(seed, kind)
    return respond(asked.text.encode(), parse_options(asked.options))


@pytest.mark.parametrize("kind", TYPES)
def test_reads_the_promises_and_the_summary_of_our_own_answers(kind: str) -> None:
    for seed in range(1, 9):
        ours = answered(seed, kind)
        assert ours.message is not None
        read = other_answer.response(ours.message, ours, f"{ours.answer}\n".encode())
        assert read.promises == ours.promises
        assert (read.answer, read.summary.request) == (ours.answer, kind)
        assert bool(read.summary.refusal) == bool(ours.summary.refusal)
        if kind == "allocate" and ours.promises:
            assert read.summary.score == pytest.approx(ours.summary.score, abs=1e-8)
            assert read.summary.groups == ours.summary.groups


@pytest.mark.parametrize(
    "answer",
    [
        {"success": True, "info": "", "result": ["stranger.example.org"]},
        {"success": True, "info": "", "result": []},
        {"success": True, "info": "", "result": 3},
        {"success": True, "result": []},
        [],
    ],
)
def test_refuses_what_is_no_answer_to_the_request(answer: object) -> None:
    ours = answered(1, "allocate")
    assert ours.message is not None
    with pytest.raises(DataError, match="expected an answer"):
        other_answer.places(ours.message, orjson.dumps(answer))
