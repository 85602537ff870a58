"""The section of a page about the score of node groups."""

from collections.abc import Mapping, Sequence
from typing import Any

from ganeti_htools.model.wording import counted
from ganeti_htools.pages import pictures
from ganeti_htools.pages.markup import Markup, element, join, section, table
from ganeti_htools.pages.sides import Side, change, figure

_SCORED = 12  # groups whose components are drawn, those with changes first


def score(before: Side, after: Side | None) -> Markup:
    """Return the weighted components of the score of groups: pictures and a table."""
    later = {group["name"]: group for group in (after or before).health}
    pairs = [(group, later[group["name"]]) for group in before.health if group["components"]]
    pairs.sort(key=lambda pair: (pair[0]["score"] == pair[1]["score"], -(pair[0]["score"] or 0)))
    shown = [_components(pair if after else pair[1:]) for pair in pairs[:_SCORED]]
    if not shown:
        return section("Score by component", element("p", "No group has nodes in use."))
    note = "Lower is better. Each component counts with its weight; what is 0 is left out."
    more = len(pairs) - len(shown)
    rest = [element("p", f"Not shown: {counted(more, 'group')} with less score.")] if more else []
    return section("Score by component", element("p", note, class_="quiet"), *shown, *rest)


def _components(ends: Sequence[Mapping[str, Any]]) -> Markup:
    """Return the picture and the table of a group: as it is, or as it was and as it will be."""
    name, score = ends[0]["name"], change([figure(end["score"]) for end in ends])
    figures = {
        component: values
        for component in ends[0]["components"]
        if any(values := [end["components"].get(component) for end in ends])
    }
    if not figures:
        return element("h3", f"{name}: {score}")
    most = max(value for values in figures.values() for value in values if value)
    rows, cells = [], []
    for component, values in sorted(figures.items(), key=lambda each: -max(filter(None, each[1]))):
        texts, shares = [*map(figure, values)], [(value or 0) / most for value in values]
        drawn = pictures.bar(shares[-1], shares[0] if len(ends) > 1 else None)
        rows.append(pictures.row(component, drawn, change(texts)))
        cells.append((component, *texts))
    header = ("Component", *(("Before", "After") if len(ends) > 1 else ("Now",)))
    listed = table(f"Components of group {name}", header, cells, (False, *[True] * len(ends)))
    return join((element("h3", f"{name}: {score}"), element("div", *rows, class_="long"), listed))
