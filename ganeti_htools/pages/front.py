"""The section of a page about plans to pick from (``hbal --front``)."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from ganeti_htools.model.wording import size
from ganeti_htools.pages import pictures
from ganeti_htools.pages.markup import Markup, element, section, table


def front(
    group: str, plans: Sequence[Mapping[str, Any]], header: Sequence[str], rows: Sequence[Sequence[str]]
) -> Markup:
    """Return the chart of the plans of a group, what they copy against their unevenness, and their table."""
    scores = [float(plan["score"]) for plan in plans]
    copied = [plan["disk_mib"] + plan["memory_mib"] for plan in plans]
    low, high, most = min(scores), max(scores), max(copied)
    places = [
        (copy / (most or 1), (score - low) / ((high - low) or 1))
        for copy, score in zip(copied, scores, strict=True)
    ]
    across = element("span", "copies nothing"), element("span", f"copies {size(most)}")
    figure = element(
        "figure",
        element(
            "figcaption",
            f"Unevenness: {high:.2f} at the top, {low:.2f} at the bottom. --pick=N makes plan N.",
        ),
        pictures.points(places, [str(plan["plan"]) for plan in plans]),
        element("div", *across, class_="ends"),
    )
    return section(
        f"Plans to pick from: {group}",
        *([figure] if isfinite(sum(scores)) else []),
        table("From no move to the most even plan", header, rows, [True] * len(header)),
    )
