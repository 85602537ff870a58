"""The documents that quote figures: docs/benchmarks.md, and the table in README.md."""

import re
from collections.abc import Sequence

from bench.timing import TOP, Table
from ganeti_htools.files import read_text, write_text

BENCHMARKS, README = str(TOP / "docs/benchmarks.md"), str(TOP / "README.md")
MARKS = re.compile(r"(?<=<!-- figures -->\n).*(?=<!-- /figures -->)", re.DOTALL)

# The rows that README shows, with their text there; work is in nodes / instances.
SHOWN = {
    "hail 5 / 50": "a decision by the daemon, 5 / 50",
    "hail 40 / 400": "a decision by the daemon, 40 / 400",
    "hail 80 / 800": "a decision by the daemon, 80 / 800",
    "hail 80 / 800, one-shot": "a decision by `hail`, 80 / 800",
    "hail 1,000 / 10,000 [1]": "a decision by the daemon, 1,000 / 10,000 (Debian's without N+1)",
    "hbal 20 / 200, to the end": "`hbal`, 20 / 200, to the end",
    "hbal 80 / 800, five steps": "`hbal`, 80 / 800, five steps",
    "hsqueeze 20 / 160 external [6]": "`hsqueeze`, 20 / 160, external storage",
    "hspace, 8 empty nodes, with Debian's": "`hspace`, 8 empty nodes",
}


def write(tables: Sequence[Table]) -> None:
    """Replace the figures between the marks in both documents."""
    _replace(BENCHMARKS, "\n".join(f"## {_heading(table)}\n\n{table.markdown()}" for table in tables))
    rows = ["| work, nodes / instances | Debian's | ours | faster |", "|---|---:|---:|---:|"]
    rows += [row for table in tables for row in _shown(table)]
    _replace(README, "".join(f"{row}\n" for row in rows))


def _replace(path: str, figures: str) -> None:
    write_text(path, MARKS.sub(lambda _: figures, read_text(path)))


def _heading(table: Table) -> str:
    """The title up to its first colon, full stop or comma."""
    return re.split(r"[:.,]", " ".join(table.title.split()))[0]


def _shown(table: Table) -> list[str]:
    """The rows of a table for README: work, Debian's and our median, how many times faster."""
    header, *lines = table.lines
    if "faster" not in header:
        return []
    columns = list(map(header.index, ("Debian's (runs)", "ours (runs)", "faster")))
    return [
        f"| {SHOWN[line[0]]} | {' | '.join(line[at].split(' (')[0] for at in columns)} |"
        for line in lines
        if line[0] in SHOWN
    ]
