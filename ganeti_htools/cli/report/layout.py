"""Text in columns, and names in a line."""

from collections.abc import Iterable, Sequence

# So many nodes, and instances of each, are named in a text.
NAMED = 8


def some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:NAMED])} and {more} more"


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool], prefix: str = ""
) -> str:
    """Lines of cells, each padded to the width of its column; cells of ``numeric`` columns are right-aligned.

    Each line begins with ``prefix`` and a blank.
    """
    columns = []
    for cells, right in zip(zip(header, *rows, strict=True), numeric, strict=True):
        width = max(map(len, cells))
        columns.append([cell.rjust(width) if right else cell.ljust(width) for cell in cells])
    return "".join(f"{prefix} {' '.join(line)}\n" for line in zip(*columns, strict=True))
