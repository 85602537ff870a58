"""Plans in a form that somebody else can carry out."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import stepwise
from ganeti_htools.engine.moving.named_moves import named
from ganeti_htools.luxi.opcodes import PRIORITIES
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.plan import Execution, new_run, silent_progress
from ganeti_htools.planning.steps import retrace, to_json
from ganeti_htools.version import title
from tests.support import by_hand
from tests.support.by_hand import instance

ROWS = [instance(f"i{row}", DiskTemplate.EXT, "n0") for row in range(3)]
CLUSTER = by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 10_000), ROWS)
MOVABLE = np.ones(len(ROWS), np.bool_)


def steps() -> list[Any]:
    found = stepwise(derive(CLUSTER), np.ones(3, np.bool_), BalancingOptions(min_gain=0.0), MOVABLE)
    return list(found)


def test_described_steps_can_be_retraced() -> None:
    made, state = steps(), derive(CLUSTER)
    document = to_json(named(state, made))
    assert [each["instance"] for each in document] == [f"i{step.instance}" for step in made]
    assert all(each["from"] == ("n0",) and each["to"] != ("n0",) for each in document)
    assert [each["score"] for each in document] == [step.score for step in made]
    again = derive(CLUSTER)
    assert list(retrace(again, MOVABLE, document)) == made
    assert [again.cluster.nodes[row].name for row in again.pnode[[step.instance for step in made]]] == [
        each["to"][0] for each in document
    ]


@pytest.mark.parametrize("score", [math.inf, math.nan])
def test_score_that_is_not_finite_becomes_text(score: float) -> None:
    first, *_ = steps()
    (document,) = to_json(named(derive(CLUSTER), [replace(first, score=score)]))
    assert document["score"] == str(float(score)).replace("inf", "Infinity").replace("nan", "NaN")
    (again,) = retrace(derive(CLUSTER), MOVABLE, [document])
    assert again.score == score or (math.isnan(score) and math.isnan(again.score))


@pytest.mark.parametrize(
    "change", [{"move": "jump"}, {"score": "much"}, {"score": None}, {"from": 7}, {"to": None}]
)
def test_refuses_description_of_another_form(change: dict[str, Any]) -> None:
    document = {**to_json(named(derive(CLUSTER), steps()))[0], **change}
    with pytest.raises(DataError, match=r"^htoolsd's description of the plan has an unexpected form$"):
        list(retrace(derive(CLUSTER), MOVABLE, [document]))
    with pytest.raises(DataError):
        list(retrace(derive(CLUSTER), MOVABLE, [{}]))


def test_new_run_has_all_jobs_ahead() -> None:
    run = new_run("hbal", "rebalancing", [], Execution())
    assert (run.rest, run.tasks, run.ending) == ([], [], None)
    assert run.signature.source == "hbal"
    assert run.signature.reason == f"{title('hbal')} called"
    assert run.signature.purpose == f"rebalancing via {title('hbal')}"
    assert run.signature.priority == PRIORITIES["normal"]
    assert run.signature.run != new_run("hbal", "rebalancing", [], Execution()).signature.run


def test_new_run_has_the_requested_reason_and_priority() -> None:
    signature = new_run("hbal", "rebalancing", [], Execution(reason="", priority="low")).signature
    assert (signature.reason, signature.priority) == ("", PRIORITIES["low"])


def test_unwatched_progress_is_ignored() -> None:
    with silent_progress() as progress:
        progress("1 step")
