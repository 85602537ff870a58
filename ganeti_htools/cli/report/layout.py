"""Text in columns and lines: widths, names, sizes, numbers of things.

Reports fit the terminal. What goes to a pipe or a file is never cut. Names are printed without characters
that a terminal obeys.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ganeti_htools import streams
from ganeti_htools.model.errors import printable, printable_lines

# The most nodes, and instances of each, that a text names.
NAMED = 8
_USUAL = 80  # columns, if there is no terminal to ask
_NARROW = 30  # columns that a text needs beside a table
_SHORTEST = 8  # columns that a cell keeps


def columns() -> int:
    """Return the width in which words wrap: that of the terminal, or 80 if standard output is none."""
    return streams.width() or _USUAL


def first_of(names: Sequence[str]) -> str:
    """Join the first names, and say how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:NAMED])} and {more} more"


def gib(mib: float) -> str:
    """Format a size given in MiB as GiB without the unit, for tables."""
    return f"{mib / 1024:.1f}"


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    numeric: Sequence[bool],
    prefix: str = "",
    gap: str = " ",
) -> str:
    """Lay out cells in columns as Ganeti's tools do; cells of ``numeric`` columns are right-aligned.

    Each line begins with ``prefix`` and a blank; there is a ``gap`` between columns.
    """
    columns = []
    for cells, right in zip(zip(header, *rows, strict=True), numeric, strict=True):
        width = max(map(len, cells))
        columns.append([cell.rjust(width) if right else cell.ljust(width) for cell in cells])
    return "".join(f"{prefix} {gap.join(line)}\n" for line in zip(*columns, strict=True))


def fitting_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    numeric: Sequence[bool],
    prefix: str = "",
    labels: int = 1,
) -> str:
    """Lay out a table for the terminal.

    Its widest cells of text are cut, with a mark, until it fits. If that is not enough, its columns are laid
    out in several tables below each other, each with the first ``labels`` columns.
    """
    rows = [tuple(map(printable, row)) for row in (header, *rows)]
    screen, parts = streams.width(), [list(range(len(header)))]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    if screen is not None:
        room = screen - len(prefix)  # a column takes its width and a blank
        texts = [place for place, right in enumerate(numeric) if not right]
        least = sum(
            width if right else min(width, _SHORTEST) for width, right in zip(widths, numeric, strict=True)
        )
        if least + len(widths) <= room:
            _narrow(widths, texts, room - len(widths))
        else:
            _narrow(widths, texts[:labels], room // 2 + sum(widths[labels:]))
            rest = max(_SHORTEST, room - sum(widths[:labels]) - (labels + 1))
            for place in texts[labels:]:
                widths[place] = min(widths[place], rest)
            parts = _parts([width + 1 for width in widths], labels, room)
    cells = [[_cut(*cell) for cell in zip(row, widths, strict=True)] for row in rows]
    tables = []
    for part in parts:
        title, *lines = ([row[place] for place in part] for row in cells)
        tables.append(table(title, lines, [numeric[place] for place in part], prefix))
    return "\n".join(tables)


def _narrow(widths: list[int], texts: Sequence[int], room: int) -> None:
    """Reduce the widths of the widest texts, until the sum of all widths is at most ``room``."""
    while texts and sum(widths) > room:
        widest = max(texts, key=lambda place: widths[place])
        if widths[widest] <= _SHORTEST:
            return
        widths[widest] -= 1


def _parts(widths: Sequence[int], labels: int, room: int) -> list[list[int]]:
    """Distribute columns to tables that fit the room; each begins with the labels and has one column more."""
    parts: list[list[int]] = []
    for place in range(labels, len(widths)):
        if not parts or sum(widths[each] for each in (*parts[-1], place)) > room:
            parts.append(list(range(labels)))
        parts[-1].append(place)
    return parts


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else f"{cell[: width - 1]}…"


def escape_control_characters(answer: Any) -> Any:
    """Return JSON whose texts are :func:`printable`: other programs and people wrote them."""
    match answer:
        case str():
            return printable(answer)
        case list():
            return list(map(escape_control_characters, answer))
        case dict():
            return {printable(key): escape_control_characters(value) for key, value in answer.items()}
    return answer


def noted_table(header: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool]) -> str:
    """Lay out a table whose last column is words, which wrap: beside the other columns, or below each row."""
    rows = [tuple(map(printable, row)) for row in rows]
    lines = table(header[:-1], [row[:-1] for row in rows], numeric[:-1]).splitlines()
    beside = len(lines[0]) + 1 + _NARROW <= columns()
    indent = len(lines[0]) + 1 if beside else 6
    result = []
    for line, words in zip(lines, [header[-1], *(row[-1] for row in rows)], strict=True):
        parts = textwrap.wrap(
            words, max(columns() - indent, 1), break_long_words=False, break_on_hyphens=False
        )
        if beside:
            line = f"{line} {parts.pop(0) if parts else ''}"
        result += [line.rstrip(), *(" " * indent + part for part in parts)]
    return "".join(f"{line}\n" for line in result)


def wrapped(text: str) -> str:
    """Wrap the lines of a text at the width of the terminal; keep them in a pipe or file."""
    text, screen = printable_lines(text), streams.width()
    if screen is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _wrapped_line(line, screen))


def _wrapped_line(line: str, screen: int) -> Iterator[str]:
    if len(line.rstrip()) <= screen:
        yield line
        return
    label = re.match(r" *\S+  +| *", line)  # what follows a label stays behind it
    indent = label.end() + 2 * (not label[0].strip()) if label else 0
    yield from textwrap.wrap(
        line,
        screen,
        subsequent_indent=" " * min(indent, screen // 2),
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def key_lines(prefix: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Format ``KEY=VALUE`` lines, the machine-readable form of Ganeti's tools: shell fragments.

    Values with anything but letters, digits and points are quoted. Quotation marks in values are escaped.
    """
    return "".join(f"{prefix}_{key.upper()}={_quoted(value)}\n" for key, value in pairs)


def _quoted(value: str) -> str:
    plain = all(letter.isalnum() or letter == "." for letter in value)
    return value if plain else "'" + value.replace("'", "'\\''") + "'"
