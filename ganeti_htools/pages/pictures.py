"""Pictures in SVG whose size in pixels is that of the page, so that text in them never shrinks."""

from collections.abc import Callable, Sequence
from itertools import groupby

from ganeti_htools.pages.markup import Markup, element

FULL, HIGH = 0.9, 0.75  # used shares from which a bar has another colour
_HEIGHT, _CHART = 14, 220  # pixels


def bar(now: float, was: float | None = None, kinds: Callable[[float], str] = lambda _: "bar") -> Markup:
    """Return a bar for a share (0 to 1) of the track; a line and a pale bar show what it was.

    ``kinds`` gives the class of a bar by its share.
    """
    parts = [_bar(1.0, "track")]
    if was is not None and was > now:
        parts.append(_bar(was, f"{kinds(was)} pale"))
    parts.append(_bar(now, kinds(now)))
    if was is not None and _percent(was) != _percent(now):
        parts.append(element("rect", x=_percent(was), y="0", width="2", height=str(_HEIGHT), class_="was"))
    return element("svg", *parts, height=str(_HEIGHT), aria_hidden="true")


def usage(now: float, was: float | None = None) -> Markup:
    """Return a bar for a used share, with the colour of how full that is."""
    return bar(now, was, level)


def level(share: float) -> str:
    """Name the class of a used share."""
    return "full" if share >= FULL else "high" if share >= HIGH else "bar"


def _bar(share: float, kind: str) -> Markup:
    return element("rect", x="0", y="1", width=_percent(share), height=str(_HEIGHT - 2), class_=kind)


def _percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.2f}%"


def row(label: str, picture: Markup, figures: str) -> Markup:
    return element("div", element("span", label), picture, element("span", figures), class_="row")


def strip(shares: Sequence[float]) -> Markup:
    """Return a strip of used shares, one after the other, as dark as they are full."""
    kinds = ["" if share < 0.25 else "bar pale" if share < 0.5 else level(share) for share in shares]
    parts, wide, x = [_bar(1.0, "track")], 100 / len(kinds), 0
    for kind, run in groupby(kinds):
        count = len(list(run))
        if kind:
            size = {"x": f"{wide * x:.2f}%", "width": f"{wide * count:.2f}%", "height": str(_HEIGHT - 2)}
            parts.append(element("rect", y="1", class_=kind, **size))
        x += count
    return element("svg", *parts, height=str(_HEIGHT), aria_hidden="true")


def distribution(shares: Sequence[float]) -> Markup:
    """Return a column for each tenth of used shares, as high as there are nodes in it, with their number."""
    counts = [0] * 10
    for share in shares:
        counts[min(max(int(share * 10), 0), 9)] += 1
    parts = []
    for place, count in enumerate(counts):
        top, x = 84 * (1 - count / max(counts)), f"{10 * place + 0.5}%"
        kind = level((place + 0.5) / 10)
        parts.append(
            element("rect", x=x, y=f"{16 + top:.1f}", width="9%", height=f"{84 - top:.1f}", class_=kind)
        )
        if count:
            parts.append(element("text", str(count), x=f"{10 * place + 5}%", y=f"{12 + top:.1f}"))
    return element("svg", *parts, height="100", class_="columns", aria_hidden="true")


def points(places: Sequence[tuple[float, float]], labels: Sequence[str]) -> Markup:
    """Return labelled points at places (x and y, each 0 to 1, from the lower left corner)."""
    parts = [element("rect", x="0", y="0", width="100%", height=str(_CHART), class_="track")]
    for (x, y), label in zip(places, labels, strict=True):
        across, down = f"{4 + 88 * x:.2f}%", f"{18 + (_CHART - 36) * (1 - y):.1f}"
        parts.append(element("circle", cx=across, cy=down, r="5", class_="bar"))
        parts.append(element("text", label, x=across, y=down, dx="9", dy="-4"))
    return element("svg", *parts, height=str(_CHART), class_="points", aria_hidden="true")
