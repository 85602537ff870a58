"""The JSON Schemas of ``--json``."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

DIRECTORY = Path(__file__).parents[2] / "schemas"


@cache
def schemas() -> dict[str, Any]:
    """Return the schemas by the names of their files."""
    return {path.name: json.loads(path.read_text()) for path in DIRECTORY.iterdir()}


@cache
def _registry() -> Any:
    return Registry().with_resources((name, Resource.from_contents(each)) for name, each in schemas().items())


def complaint(name: str, document: Any) -> str | None:
    """Return what is wrong with a document of a tool, or of htoolsctl with a command; None if it is right."""
    validator = Draft202012Validator({"$ref": f"{name}-1.json"}, registry=_registry())
    found = validator.iter_errors(document)
    return next((f"{error.json_path}: {error.message:.300}" for error in found), None)
