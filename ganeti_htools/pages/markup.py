"""HTML as text that is escaped once: names in a page come from other people."""

from collections.abc import Iterable, Sequence
from html import escape

from ganeti_htools.model.errors import printable

_VOID = {"meta", "rect", "circle"}  # elements that are written without an end
_SHOWN = 25  # rows of a table


class Markup(str):
    """Text that is HTML already. Every other text is escaped when it becomes part of an element."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Return text as HTML. Characters that are not printable, like marks of direction, become visible."""
    return text if isinstance(text, Markup) else Markup(escape(printable(text)))


def join(parts: Iterable[str]) -> Markup:
    return Markup("".join(map(escaped, parts)))


def element(name: str, /, *content: str, **attributes: str | None) -> Markup:
    """Return an element. Attributes None are left out; ``_`` in their names stands for ``-``."""
    given = "".join(
        f' {key.strip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{given}>" if name == "meta" else f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{join(content)}</{name}>")


def section(title: str, *content: str) -> Markup:
    return element("section", element("h2", title), *content)


def fold(summary: str, *content: str) -> Markup:
    """Return content that a click shows."""
    return element("details", element("summary", summary), *content)


def command(*lines: str) -> Markup:
    """Return commands to copy, one a line: a click selects all of them."""
    return element("pre", element("code", Markup("\n".join(map(escaped, lines)))))


def table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Iterable[str]],
    numeric: Sequence[bool],
    most: int = _SHOWN,
) -> Markup:
    """Return a table, which scrolls sideways where it is too wide. The first cell names its row.

    Rows beyond ``most`` are folded, unless they are few.
    """
    kinds = ["number" if right else None for right in numeric]
    head = [element("th", cell, scope="col", class_=kind) for cell, kind in zip(header, kinds, strict=True)]
    shown = most if len(rows) > most * 1.2 else len(rows)
    filled = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *head)),
        element("tbody", *(_row(row, kinds) for row in rows[:shown])),
    )
    whole = element("section", filled, class_="wide", aria_label=caption, tabindex="0")
    if shown == len(rows):
        return whole
    return join((whole, fold(f"{len(rows) - shown} more", table(caption, header, rows[shown:], numeric))))


def _row(cells: Iterable[str], kinds: Iterable[str | None]) -> Markup:
    (first, kind), *others = zip(cells, kinds, strict=True)
    return element(
        "tr",
        element("th", first, scope="row", class_=kind),
        *(element("td", cell, class_=each) for cell, each in others),
    )
