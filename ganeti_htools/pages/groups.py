"""Sections of a page about the cluster as a whole, and its node groups."""

from ganeti_htools.pages.markup import Markup, element, section, table
from ganeti_htools.pages.sides import Side, change, figure


def facts(before: Side, after: Side | None) -> Markup:
    """Return the size and the health of the cluster in few figures."""
    cluster = before.state.cluster
    changed = after or before
    good = sum(group["health"] == "healthy" for group in changed.health)
    entries = {
        "Nodes": str(len(cluster.nodes)),
        "Instances": str(len(changed.state.cluster.instances)),
        "Groups with nodes": str(len(before.health)),
        "Healthy groups" + " after the plan" * (after is not None): f"{good} of {len(changed.health)}",
    }
    listed = (element("li", f"{name} ", element("b", value)) for name, value in entries.items())
    return element("ul", *listed, class_="facts")


def groups(before: Side, after: Side | None) -> Markup:
    """Return the table of node groups."""
    header = ["Group", "Nodes", "Instances", "Health", "Score"]
    later = {group["name"]: group for group in (after or before).health}
    rows = []
    for group in before.health:
        ends = [group, *([later[group["name"]]] if after else [])]
        rows.append(
            (
                group["name"],
                str(group["nodes"]),
                change([str(end["instances"]) for end in ends]),
                change([end["health"] for end in ends]),
                change([figure(end["score"]) for end in ends]),
            )
        )
    if not rows:
        return section("Node groups", element("p", "No group has nodes."))
    caption = "Node groups, with their state before and after the plan" if after else "Node groups"
    return section("Node groups", table(caption, header, rows, (False, True, True, False, True)))
