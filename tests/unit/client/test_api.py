"""The client that other programs import (``docs/python-api.md``, whose examples are run)."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import trio

from ganeti_htools import client
from ganeti_htools.client import on_trio
from ganeti_htools.client.answers import State
from htoolsd.plans.plan import PlanState
from tests.support.programs import ROOT


def test_client_needs_the_standard_library_only() -> None:
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import ganeti_htools.client"
    subprocess.run([sys.executable, "-I", "-S", "-c", script], check=True)


def _required(definition: Any, common: Any) -> set[str]:
    """The keys that a schema requires."""
    own = set(definition.get("required", ()))
    if "$ref" in definition:
        own |= _required(common["$defs"][definition["$ref"].rpartition("/")[2]], common)
    return own.union(*(_required(each, common) for each in definition.get("allOf", ())))


@pytest.mark.parametrize(
    ("typed", "schema"), [(client.StatusAnswer, "status"), (client.PlanSummary, "plans")]
)
def test_typed_keys_are_in_every_answer(typed: type, schema: str) -> None:
    document = json.loads((ROOT / f"schemas/htoolsctl-{schema}-1.json").read_text())
    common = json.loads((ROOT / "schemas/common-1.json").read_text())
    assert set(get_type_hints(typed)) <= _required(document.get("items", document), common)


def test_states_of_plans_are_those_of_the_daemon() -> None:
    assert set(State.__args__) == set(PlanState)  # type: ignore[attr-defined]


async def test_a_cancelled_call_closes_its_connection(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with trio.socket.socket(socket.AF_UNIX) as listening:
        await listening.bind(path)
        listening.listen()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on_trio.connect, path)
            peer, _ = await listening.accept()
            with peer:
                assert b'"status"' in await peer.recv(1000)
                nursery.cancel_scope.cancel()
                with trio.CancelScope(shield=True), trio.fail_after(10):
                    assert await peer.recv(1000) == b""
