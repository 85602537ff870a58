"""Every ``--json`` has a JSON Schema, with the keys of its manual page, and the tools print what it says."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ganeti_htools.cli import (
    hail,
    hbal,
    hcheck,
    hinfo,
    hmaintain,
    hregroup,
    hroller,
    hspace,
    hsqueeze,
    htoolsctl,
)
from ganeti_htools.commandline.programs import PROGRAMS
from ganeti_htools.execution.record import INTERRUPTED
from ganeti_htools.execution.run import Ending
from tests.support.schemas import complaint, schemas
from tests.unit.test_json_keys import told

EXAMPLES = Path(__file__).parents[2] / "examples"
# Commands that print the document of another one.
SAME = {"top": "status"} | dict.fromkeys(("execute", "resume", "cancel", "forget"), "plan")
# Words of the pages that are values.
VALUES = {
    "hbal": {ending.value for ending in Ending} | {INTERRUPTED},
    "hregroup": {"balance"},
    "hscan": {"bad"},
    "hsqueeze": {"nothing"},
}
TOOLS = [name for name, tool in PROGRAMS.items() if any(each.long == "json" for each in tool.all_options)]
HTOOLSCTL = [
    f"htoolsctl-{SAME.get(name, name)}"
    for action in htoolsctl.parser()._actions
    if isinstance(action, argparse._SubParsersAction)
    for name in action.choices
]


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and all schemas in it."""
    if isinstance(schema, list):
        for each in schema:
            yield from parts(each)
    elif isinstance(schema, dict):
        yield schema
        for key, each in schema.items():
            yield from parts(list(each.values()) if key in ("properties", "$defs") else each)


def keys(name: str, seen: set[str]) -> set[str]:
    """The keys that a schema allows, with those of its references."""
    file, _, place = name.partition("#/$defs/")
    top = schemas()[file]["$defs"][place] if place else schemas()[file]
    found = set[str]()
    seen.add(name)
    for part in parts(top):
        found |= part.get("properties", {}).keys()
        if (reference := part.get("$ref", "")) and not reference.startswith("#") and reference not in seen:
            found |= keys(reference, seen)
    return found


def test_every_json_has_a_schema_and_every_schema_a_json() -> None:
    assert {f"{name}-1.json" for name in (*TOOLS, *HTOOLSCTL, "common")} == schemas().keys()


@pytest.mark.parametrize("name", sorted(schemas()))
def test_schema_is_valid_and_strict(name: str) -> None:
    Draft202012Validator.check_schema(schemas()[name])
    open_objects = [
        part
        for part in parts(schemas()[name])
        if part.get("type") == "object"
        and part.get("additionalProperties") is None
        and part is not schemas()[name].get("$defs", {}).get("parts")  # closed where it is used
    ]
    assert open_objects == []


@pytest.mark.parametrize("tool", TOOLS)
def test_schema_has_the_keys_of_the_manual_page(tool: str) -> None:
    assert told(f"{tool}.1.md") - VALUES.get(tool, set()) <= keys(f"{tool}-1.json", set())


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (hail, ["allocate.json"]),
        (hail, ["--explain", "allocate.json"]),
        (hail, ["--make-room", "allocate-too-large.json"]),
        (hbal, ["-t", "drifted.data", "--all-groups"]),
        (hbal, ["-t", "balanced.data"]),
        (hbal, ["--simulate=p,2,1g,1g,1"]),
        (hcheck, ["-t", "drifted.data"]),
        (hinfo, ["-t", "storage.data", "--storage"]),
        (hmaintain, ["start", "node1", "-t", "drifted.data", "--explain"]),
        (hregroup, ["-t", "racks.data", "groups"]),
        (hregroup, ["-t", "racks.data", "redistribute"]),
        (hregroup, ["-t", "racks.data", "balance"]),
        (hroller, ["-t", "drifted.data"]),
        (hspace, ["-t", "storage.data"]),
        (hspace, ["-t", "gpus.data"]),
        (hsqueeze, ["-t", "idle.data"]),
    ],
)
def test_tools_print_what_the_schema_says(
    tool: Any, arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(EXAMPLES)
    tool.main(["--json", *arguments])
    document = json.loads(capsys.readouterr().out)
    assert complaint(tool.__name__.rpartition(".")[2], document) is None


def test_unknown_key_is_a_complaint() -> None:
    assert complaint("harep", {"instances": [], "counts": {}}) is None
    assert complaint("harep", {"instances": [], "counts": {}, "more": 1})
    assert complaint("harep", {"instances": {}, "counts": {}})
