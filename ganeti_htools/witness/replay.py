"""A recorded decision, made again by this installation or by another program, and compared."""

from dataclasses import replace
from typing import Any

import trio

from ganeti_htools import machine
from ganeti_htools.backends import iallocator
from ganeti_htools.deciding.decision import PreparedRequest
from ganeti_htools.deciding.other_answer import Places, cluster_after, places, promises
from ganeti_htools.deciding.summary import request_type
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.recording.decision import RecordedDecision
from ganeti_htools.witness.compare import Case, compare
from ganeti_htools.witness.program import request_file
from ganeti_htools.witness.verdict import WitnessVerdict, by_places, by_score, instances

_SECONDS = 600.0  # of a program


def replay(decision: RecordedDecision, program: str | None) -> dict[str, Any]:
    """Return the verdict and what it rests on, as :func:`.compare` does. Raises HtoolsError.

    By this installation: our answer is the new one, theirs the recorded one, and ``exact`` whether both are
    the same to the byte. By a program: our answer is the recorded one. ``sides`` names both for people.
    """
    message = iallocator.read(decision.request)
    facts = {
        "id": decision.id,
        "time": decision.time,
        "request": request_type(message.request),
        "arguments": decision.arguments,
        "ours": decision.answer,
        "our_seconds": decision.seconds,
        "sides": {"ours": "recorded", "theirs": program},
        "exact": None,
    }
    if program is None:
        return facts | _again(decision, message)
    with request_file(decision.request) as descriptor:
        case = Case(descriptor, program, decision.arguments, _SECONDS, decision.answer, None, None)
        return facts | trio.run(compare, case)


def _again(decision: RecordedDecision, message: iallocator.Message) -> dict[str, Any]:
    found: dict[str, Any] = {
        "sides": {"ours": "now", "theirs": "recorded"},
        "theirs": decision.answer,
        "their_seconds": decision.seconds,
        "error": None,
        "scores": None,
        "instances": [],
        "explained": None,
    }
    began = machine.steady()
    try:
        answer = decision.decide().answer
    except HtoolsError as error:
        return found | {"ours": None, "verdict": WitnessVerdict.OURS_FAILED, "error": str(error)}
    found |= {"ours": answer, "our_seconds": round(machine.steady() - began, 3)}
    now, then = (places(message, each.encode()) for each in (answer, decision.answer))
    verdict = by_places(now, then)
    if verdict is None:
        prepared = decision.prepare()
        scores = [_score(prepared, each) for each in (now, then)]
        verdict, found["scores"] = by_score(*scores), dict(zip(("ours", "theirs"), scores, strict=True))
    return found | {
        "verdict": verdict,
        "instances": instances(message, now, then),
        "exact": answer == decision.answer,
    }


def _score(prepared: PreparedRequest, found: Places) -> float:
    """Return the score of all groups with instances at their places."""
    message = replace(prepared.message, cluster=prepared.counting)
    after = derive(
        cluster_after(message, promises(message, found)), (), prepared.options.static_kvm_node_memory
    )
    return sum(score_of(after, after.group == row) for row in range(len(after.cluster.groups)))
