"""The glossary: the terms of the code and of the output, from ``docs/glossary.md``.

An entry is a list item, ``* **term**, **other name**: text``, below the heading of its subject.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

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


def load() -> list[GlossaryEntry]:
    """Read the glossary of this checkout or installation. Raises DataError if there is none."""
    packages = Path(__file__).parents[2]  # if installed, PREFIX/lib/NAME/NAME
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
    """Yield the entries of a document in Markdown."""
    subject = ""
    for block in re.split(r"\n(?=\* |#)|\n\n", document):
        if block.startswith("#"):
            subject = block.lstrip("# ").strip()
        elif match := _ENTRY.fullmatch(" ".join(block.split())):
            names = tuple(re.findall(r"\*\*([^*]+)\*\*", match["names"]))
            yield GlossaryEntry(names, subject, match["text"].replace("`", ""))


def find(entries: Sequence[GlossaryEntry], term: str) -> GlossaryEntry:
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
