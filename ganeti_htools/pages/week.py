"""The section of a page about measured load: the hottest nodes by hour of the week."""

from collections.abc import Iterator, Mapping, Sequence

from ganeti_htools.pages import pictures
from ganeti_htools.pages.markup import Markup, element, section
from ganeti_htools.pages.sides import percent

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def week(hours: Mapping[str, Sequence[float]]) -> Iterator[Markup]:
    """Yield the section about nodes, whose ``hours`` are the used shares of their CPUs; none without."""
    if not hours:
        return
    rows = []
    for name, shares in hours.items():
        worst = max(range(len(shares)), key=shares.__getitem__)
        when = f"{_DAYS[worst // 24]} {worst % 24:02}h"
        rows.append(pictures.row(name, pictures.strip(shares), f"{percent(shares[worst])} {when}"))
    legend = "Monday to Sunday; pale from 25 %, other colours from 50, 75 and 90 %. Beside: the worst hour."
    yield section("CPU use of the hottest nodes in a week", element("p", legend, class_="quiet"), *rows)
