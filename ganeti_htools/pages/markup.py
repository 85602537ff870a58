"""HTML as text that is escaped once: names in a page come from other people."""

from collections.abc import Iterable
from html import escape

from ganeti_htools.model.errors import printable

_VOID = {"meta", "rect"}  # elements that are written without an end


class Markup(str):
    """Text that is HTML already. Every other text is escaped when it becomes part of an element."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Return text as HTML. Characters that are not printable, like marks of direction, become visible."""
    return text if isinstance(text, Markup) else Markup(escape(printable(text)))


def join(parts: Iterable[str]) -> Markup:
    """Join texts and elements."""
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
    """Return a section with its title."""
    return element("section", element("h2", title), *content)


def table(
    caption: str, header: Iterable[str], rows: Iterable[Iterable[str]], numeric: Iterable[bool]
) -> Markup:
    """Return a table, which scrolls by itself where it is too wide. The first cell names its row."""
    kinds = ["number" if right else None for right in numeric]
    head = [element("th", cell, scope="col", class_=kind) for cell, kind in zip(header, kinds, strict=True)]
    body = [_row(row, kinds) for row in rows]
    filled = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *head)),
        element("tbody", *body),
    )
    return element("section", filled, class_="wide", aria_label=caption, tabindex="0")


def _row(cells: Iterable[str], kinds: Iterable[str | None]) -> Markup:
    (first, kind), *others = zip(cells, kinds, strict=True)
    return element(
        "tr",
        element("th", first, scope="row", class_=kind),
        *(element("td", cell, class_=each) for cell, each in others),
    )
