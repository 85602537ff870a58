"""The section of a page about node groups: those in need first."""

import numpy as np

from ganeti_htools.pages.markup import Markup, element, section, table
from ganeti_htools.pages.nodes import resources
from ganeti_htools.pages.sides import Side, change, figure, percent


def groups(before: Side, after: Side | None) -> Markup:
    """Return the table of node groups, those in need first, then the most uneven."""
    sides = [before, *([after] if after else [])]
    if not before.health:
        return section("Node groups", element("p", "No group has nodes."))
    shares = [np.array([each.shares for each in resources(side.state)[:1]])[0] for side in sides]
    names = np.array([group.name for group in before.state.cluster.groups])
    scopes = {group["name"]: names[before.state.group] == group["name"] for group in before.health}
    rows = []
    for ends in zip(*(side.health for side in sides), strict=True):
        group, scope = ends[0], scopes[ends[0]["name"]]
        top = np.flatnonzero(scope)[int(shares[-1][scope].argmax())]
        cells = (
            group["name"],
            change([end["health"] for end in ends]),
            str(group["nodes"]),
            change([str(end["instances"]) for end in ends]),
            change([percent(float(each[scope].mean())) for each in shares]),
            f"{before.nodes[top]} {percent(float(shares[-1][top]))}",
            change([figure(end["score"]) for end in ends]),
        )
        rows.append(((ends[-1]["health"] == "healthy", -(group["score"] or 0.0)), cells))
    header = ("Group", "Health", "Nodes", "Instances", "Memory used", "Fullest node", "Score")
    rows.sort(key=lambda row: row[0])
    numeric = (False, False, True, True, True, True, True)
    caption = "Before → after the plan" if after else "Those in need first"
    return section("Node groups", table(caption, header, [cells for _, cells in rows], numeric))
