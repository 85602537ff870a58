"""Pictures in SVG without text: the figures are beside them, in HTML, so that they never shrink."""

from collections.abc import Sequence

from ganeti_htools.pages.markup import Markup, element

_HEIGHT = 14


def bar(now: float, was: float | None = None) -> Markup:
    """Return a bar for a share (0 to 1) of the track, and the outline of what it was."""
    parts = [_bar(1.0, "track"), _bar(now, "bar")]
    if was is not None:
        parts.append(_bar(was, "was"))
    return element("svg", *parts, height=str(_HEIGHT), aria_hidden="true")


def _bar(share: float, kind: str) -> Markup:
    width = f"{100 * min(max(share, 0.0), 1.0):.2f}%"
    return element("rect", x="0", y="1", width=width, height=str(_HEIGHT - 2), class_=kind)


def row(label: str, picture: Markup, figures: str) -> Markup:
    """Return a labelled bar with its figures."""
    return element("div", element("span", label), picture, element("span", figures), class_="row")


def profile(now: Sequence[float], was: Sequence[float] | None = None) -> Markup:
    """Return shares (0 to 1) in falling order as an area, and the outline of what they were."""
    shapes = [
        element("rect", x="0", y="0", width="100", height="100", class_="track"),
        element("path", d=f"M0 100{_steps(now)}V100Z", class_="bar"),
    ]
    if was is not None:
        shapes.append(element("path", d=f"M0 {_y(max(was, default=0))}{_steps(was)}", class_="was"))
    return element(
        "svg", *shapes, viewBox="0 0 100 100", preserveAspectRatio="none", height="110", aria_hidden="true"
    )


def _steps(shares: Sequence[float]) -> str:
    """Return the path along shares; equal neighbours are one step."""
    path, last = "", None
    ordered = sorted(shares, reverse=True)
    for place, share in enumerate(ordered):
        if (y := _y(share)) != last:
            path += f"H{100 * place / len(ordered):.2f}V{y}"
            last = y
    return f"{path}H100"


def _y(share: float) -> str:
    return f"{100 - 100 * min(max(share, 0.0), 1.0):.1f}"
