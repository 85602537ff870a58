"""Which groups could take a new instance, as htoolsd answers it, as text."""

from collections.abc import Mapping
from typing import Any

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.report import layout

_HEADER = ("Instance", "Group", "Policy", "Score", "Nodes")


def ranking(answer: Any, alternates: int) -> str:
    """A table of the groups that could take each instance: the best, which takes it, and so many others."""
    rows = [
        (each["instance"], group["group"], group["alloc_policy"], _score(group), ", ".join(group["nodes"]))
        for each in answer
        for group in each["groups"][: alternates + 1]
    ]
    return layout.fitting_table(_HEADER, rows, (False, False, False, True, False)) if rows else ""


def _score(group: Mapping[str, Any]) -> str:
    if "lost" in group:
        return f"{','.join(map(str, group['lost']))}/{group['disk_left']}"
    return "not finite" if group["score"] is None else fixed(group["score"], 8)
