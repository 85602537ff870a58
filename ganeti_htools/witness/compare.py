"""The process that compares two answers: ``python -m ganeti_htools.witness.compare``.

It reads a :class:`Case` as JSON from standard input, the request from a descriptor, and prints the findings
as JSON. In a process of low priority, so that nothing waits for it.
"""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import orjson
import trio

from ganeti_htools.backends import iallocator, text
from ganeti_htools.backends.iallocator import Message
from ganeti_htools.commandline.parameters import parse_options
from ganeti_htools.deciding.decision import respond
from ganeti_htools.deciding.other_answer import Places, cluster_after, places, promises, stated_score
from ganeti_htools.files import read_descriptor
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.model.placement_tags import PREFIXES
from ganeti_htools.model.request import Allocate
from ganeti_htools.programs import run_program
from ganeti_htools.witness.program import MOST_PRINTED, WitnessAnswer, ask_program, request_file
from ganeti_htools.witness.verdict import WitnessVerdict, by_places, by_score, instances, known_difference

_SCORE = re.compile(r"Initial score: (\S+)")
_LARGEST = 1 << 30  # bytes of a request


@dataclass(frozen=True, slots=True)
class Case:
    """A request, the program and its arguments, and the answers. ``theirs`` is None if it has yet to run."""

    descriptor: int
    program: str
    arguments: tuple[str, ...]
    timeout: float
    ours: str
    our_error: str | None
    theirs: WitnessAnswer | None


async def compare(case: Case) -> dict[str, Any]:
    """Return the verdict and what it rests on."""
    data = read_descriptor(case.descriptor, _LARGEST)
    theirs = case.theirs or await ask_program(
        case.program, case.descriptor, case.arguments, case.timeout, low_priority=True
    )
    found: dict[str, Any] = {
        "theirs": theirs.answer.strip() or None,
        "their_seconds": round(theirs.seconds, 3),
        "error": theirs.error or case.our_error,
        "scores": None,
        "instances": [],
        "explained": None,
    }
    message = iallocator.read(data)
    if theirs.error is not None:
        ended = WitnessVerdict.TIMED_OUT if theirs.late else WitnessVerdict.FAILED
        explained = known_difference(message, {}, None, "", {}) if not theirs.late else None
        return found | {"verdict": ended, "explained": explained}
    if case.our_error is not None:
        return found | {"verdict": WitnessVerdict.OURS_FAILED}
    our_places = places(message, case.ours.encode())
    try:
        their_places = places(message, theirs.answer.encode())
    except DataError as error:
        return found | {"verdict": WitnessVerdict.FAILED, "error": f"{case.program}: {error}"}
    verdict = by_places(our_places, their_places)
    if verdict is None:
        scores = await _scores(case, message, our_places, their_places, theirs.answer)
        verdict, found["scores"] = by_score(*scores), dict(zip(("ours", "theirs"), scores, strict=True))
    found |= {"verdict": verdict, "instances": instances(message, our_places, their_places)}
    if verdict is not WitnessVerdict.SAME:
        found["explained"] = _explained(case, data, message, our_places, their_places)
    return found


async def _scores(
    case: Case, message: Message, ours: Places, theirs: Places, answer: str
) -> tuple[float | None, float | None]:
    """Return the scores of our and their places by the other program's measure; None: it refuses them.

    An allocation is decided again on our nodes only. Otherwise, and if our order of the two nodes is another,
    its hbal scores the cluster afterwards.
    """
    if isinstance(message.request, Allocate):
        ((nodes,), (their_nodes,)) = ours.values(), theirs.values()
        restricted = [*case.arguments, f"--restrict-allocation-to={','.join(nodes)}"]
        again = await ask_program(case.program, case.descriptor, restricted, case.timeout, low_priority=True)
        score = _stated_score(again.answer, nodes)
        if score is not None or not again.answer or not json.loads(again.answer)["success"]:
            return score, _stated_score(answer, their_nodes)
    groups = {node.name: node.group for node in message.cluster.nodes}
    concerned = {groups[name] for found in (ours, theirs) for place in found.values() for name in place}
    concerned |= {groups[row.pnode] for row in message.cluster.instances if row.name in ours}
    return (
        await _cluster_score(case, message, ours, concerned),
        await _cluster_score(case, message, theirs, concerned),
    )


def _stated_score(answer: str, nodes: Sequence[str]) -> float | None:
    return stated_score(json.loads(answer)["info"], nodes) if answer else None


async def _cluster_score(case: Case, message: Message, found: Places, groups: set[str]) -> float | None:
    """Return the sum of the scores of node groups by hbal of the other program; None if it fails.

    All of Ganeti's htools are one program, which goes by the variable HTOOLS.
    """
    total = 0.0
    content = text.dump(cluster_after(message, promises(message, found))).encode()
    with request_file(content) as descriptor:
        for group in sorted(groups):
            command = ["nice", "-n", "19", case.program, "-t", f"/proc/self/fd/{descriptor}"]
            environment = os.environ | {"LC_ALL": "C.UTF-8", "HTOOLS": "hbal"}
            done = await run_program(
                [*command, "-G", group, "-l", "0", "-v"],
                case.timeout,
                MOST_PRINTED,
                "a score",
                pass_fds=[descriptor],
                env=environment,
            )
            score = _SCORE.search(done.stdout.decode(errors="replace"))
            if score is None and done.status:
                return None
            total += float(score[1]) if score else 0.0  # a group without instances has none
    return total


def _explained(case: Case, data: bytes, message: Message, ours: Places, theirs: Places) -> str | None:
    """Return the id of a known difference that certainly explains the verdict; None without one."""
    answer = json.loads(case.ours)
    reasons = dict(answer["result"][1]) if len(answer["result"]) == 3 else {}
    row = known_difference(message, ours, theirs, answer["info"], reasons)
    if row is not None:
        return row
    try:
        options = parse_options(case.arguments)
        if places(message, respond(data, options).answer.encode()) == theirs:
            return "D30"
        if places(message, respond(_without_rules(data), options).answer.encode()) == theirs:
            return "D31"
    except HtoolsError:
        pass
    return None


def _without_rules(data: bytes) -> bytes:
    """Return the request without the tags that only htoolsd knows."""
    document = orjson.loads(data)
    request = document["request"]
    rows: list[Mapping[str, Any]] = [request, *document.get("instances", {}).values()]
    rows += (row for row in request.get("instances", ()) if isinstance(row, dict))
    for row in rows:
        if "tags" in row:
            row["tags"][:] = [tag for tag in row["tags"] if not tag.startswith(PREFIXES)]
    return orjson.dumps(document)


def encode(case: Case) -> bytes:
    """Return a case as :func:`main` reads it."""
    return json.dumps(asdict(case)).encode()


def main() -> None:
    """Do the work."""
    document = json.load(sys.stdin)
    theirs = document.pop("theirs")
    arguments = tuple(document.pop("arguments"))
    case = Case(**document, arguments=arguments, theirs=theirs and WitnessAnswer(*theirs))
    print(json.dumps(trio.run(partial(compare, case))))


if __name__ == "__main__":
    main()
