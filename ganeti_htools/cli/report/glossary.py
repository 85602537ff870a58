"""Entries of the glossary as text."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from ganeti_htools.cli.glossary import GlossaryEntry


def to_json(entry: GlossaryEntry) -> dict[str, Any]:
    """Return an entry as JSON."""
    return {"term": entry.names[0], "names": [*entry.names], "subject": entry.subject, "text": entry.text}


def entries(found: Sequence[GlossaryEntry]) -> str:
    """Return all entries, each below the heading of its subject."""
    width = min(shutil.get_terminal_size().columns, 100)
    return "\n".join(_lines(found, width))


def entry(found: GlossaryEntry) -> str:
    """Return one entry."""
    return _wrapped(found, min(shutil.get_terminal_size().columns, 100), "")


def _lines(found: Sequence[GlossaryEntry], width: int) -> Iterator[str]:
    for number, (subject, group) in enumerate(groupby(found, lambda entry: entry.subject)):
        yield f"\n{subject}" if number else subject
        yield from (_wrapped(each, width, "  ") for each in group)


def _wrapped(found: GlossaryEntry, width: int, indent: str) -> str:
    text = f"{', '.join(found.names)}: {found.text}"
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
