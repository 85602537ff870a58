"""Requests and clusters in full, for debugging, as records in the style of Ganeti's tools."""

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

# Names by which scripts that read this output know them.
NAMES = {"status": "runSt", "template": "diskTemplate", "snode": "sNode", "pnode": "pNode"}


def record(value: Any) -> str:
    """A value on one line: ``Name {field = value, ...}``."""
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        inner = ", ".join(f"{NAMES.get(name, name)} = {record(getattr(value, name))}" for name in names)
        return f"{type(value).__name__} {{{inner}}}"
    if isinstance(value, Enum):
        words = value.name.title().replace("_", "")
        return f"Status{words}" if words in ("Down", "Offline") else words
    if isinstance(value, tuple):
        return f"[{','.join(record(item) for item in value)}]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)
