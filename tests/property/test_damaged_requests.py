"""Whatever a request contains, the answer is one line: a decision about it or what is wrong with it."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ganeti_htools.cli.hail import main
from ganeti_htools.deciding.decision import respond
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.options import PlacementOptions
from tests.property.damage import damaged

OPTIONS = (
    PlacementOptions(),
    PlacementOptions(capacity=False, ignore_soft_errors=True),
    PlacementOptions(static_kvm_node_memory=0),
)


def places(kind: str, result: Any) -> set[str]:
    """The nodes that a successful answer names."""
    match kind:
        case "allocate" | "relocate":
            return set(result)
        case "allocate-secondary":
            return {result}
        case "multi-allocate":
            return {node for _, nodes in result[0] for node in nodes}
        case _:
            moved, _, jobs = result
            steps = [step.get(key) for job in jobs for step in job for key in ("target_node", "remote_node")]
            return {node for _, _, nodes in moved for node in nodes} | set(steps) - {None}


def check_answer(data: bytes, text: str) -> None:
    """An answer to a request that could be read."""
    request, answer = orjson.loads(data), json.loads(text)
    assert set(answer) == {"success", "info", "result"}
    if not answer["success"]:
        assert answer["info"].startswith("Request failed: ")
        assert answer["result"] == []
        return
    kind = request["request"]["type"]
    used = places(kind, answer["result"])
    assert used <= set(request["nodes"])
    if kind in ("allocate", "multi-allocate"):
        assert not any(request["nodes"][name]["offline"] for name in used)


def check_error(text: str) -> None:
    """An error as people are to read it."""
    assert text
    assert text.isprintable()
    assert len(text) < 20_000


@settings(max_examples=160, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=damaged, options=st.sampled_from(OPTIONS))
@example(data=b"", options=PlacementOptions())
@example(data=b"{}", options=PlacementOptions())
@example(data=b"[]", options=PlacementOptions())
@example(data=b"\xff\xfe", options=PlacementOptions())
@example(data=b"[" * 10_000_000, options=PlacementOptions())
def test_damaged_request_is_decided_or_refused(data: bytes, options: PlacementOptions) -> None:
    try:
        decision = respond(data, options)
    except DataError as error:
        check_error(str(error))
    else:
        check_answer(data, decision.answer)
        assert all(line.isprintable() for line in decision.warnings)


@settings(
    max_examples=30,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
@given(data=damaged)
def test_hail_answers_damaged_requests(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = tmp_path / "request"
    request.write_bytes(data)
    status = main([str(request)])
    told = capsys.readouterr()
    if status:
        assert status == 1
        assert told.out == ""
        start, rest = told.err.split(": ", 1)
        assert start == "Error"
        check_error(rest.removesuffix("\n"))
    else:
        check_answer(data, told.out)
