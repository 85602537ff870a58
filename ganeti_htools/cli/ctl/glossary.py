"""The glossary: the terms of the code and of the output, from ``docs/glossary.md``.

An entry is a list item, ``* **term**, **other name**: text``, below the heading of its subject.
"""

import os
import re
import shutil
import textwrap
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby
from pathlib import Path
from typing import Any

from ganeti_htools.cli.ctl.commands import Add, show
from ganeti_htools.model.errors import DataError

FILE = "glossary.md"
_ENTRY = re.compile(r"\* (?P<names>\*\*[^*]+\*\*(?:, \*\*[^*]+\*\*)*): (?P<text>.+)", re.DOTALL)
_CLOSEST = 5


@dataclass(frozen=True, slots=True)
class GlossaryEntry:
    """A term with its other names, its subject and its definition."""

    names: tuple[str, ...]
    subject: str
    text: str


def declare(add: Add) -> None:
    terms = add("glossary", _glossary, "Explain the terms of the output; needs no daemon.")
    terms.add_argument("term", metavar="TERM", nargs="?", help="the term; all terms without it")


def _glossary(options: Namespace) -> int:
    known = load_entries()
    if options.term is None:
        return show(options, list(map(to_json, known)), lambda _found: entries(known))
    found = find_entry(known, options.term)
    return show(options, to_json(found), lambda _found: entry(found))


def load_entries() -> list[GlossaryEntry]:
    """Read the glossary of this checkout or installation. Raises DataError if there is none."""
    packages = Path(__file__).parents[3]  # if installed, PREFIX/lib/NAME/NAME
    places = [packages / "docs", Path(os.path.normpath(packages / "../../../share/htoolsd"))]
    for place in places:
        try:
            return list(parse((place / FILE).read_text("utf-8")))
        except OSError:
            continue
    raise DataError(
        f"glossary: cannot be read; expected {' or '.join(str(place / FILE) for place in places)}"
    )


def parse(document: str) -> Iterator[GlossaryEntry]:
    subject = ""
    for block in re.split(r"\n(?=\* |#)|\n\n", document):
        if block.startswith("#"):
            subject = block.lstrip("# ").strip()
        elif match := _ENTRY.fullmatch(" ".join(block.split())):
            names = tuple(re.findall(r"\*\*([^*]+)\*\*", match["names"]))
            yield GlossaryEntry(names, subject, match["text"].replace("`", ""))


def find_entry(entries: Sequence[GlossaryEntry], term: str) -> GlossaryEntry:
    """Return the entry of a term, whatever its case and hyphens.

    Raises DataError that names the closest terms.
    """
    known = {_key(name): (name, entry) for entry in entries for name in entry.names}
    if _key(term) in known:
        return known[_key(term)][1]
    close = [known[key][0] for key in get_close_matches(_key(term), known, _CLOSEST, cutoff=0.5)]
    hint = f"closest: {', '.join(close)}" if close else "htoolsctl glossary lists all terms"
    raise DataError(f"glossary: {term}: unknown term; {hint}")


def _key(name: str) -> str:
    return re.sub(r"[-_\s]+", " ", name).strip().lower()


def to_json(entry: GlossaryEntry) -> dict[str, Any]:
    return {"term": entry.names[0], "names": [*entry.names], "subject": entry.subject, "text": entry.text}


def entries(found: Sequence[GlossaryEntry]) -> str:
    """Return all entries, each below the heading of its subject."""
    width = min(shutil.get_terminal_size().columns, 100)
    return "\n".join(_lines(found, width))


def entry(found: GlossaryEntry) -> str:
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
