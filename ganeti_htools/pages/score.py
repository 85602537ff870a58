"""The section of a page about the score of node groups."""

from collections.abc import Mapping, Sequence
from typing import Any

from ganeti_htools.pages import pictures
from ganeti_htools.pages.markup import Markup, element, fold, join, section
from ganeti_htools.pages.sides import Side, change, figure

# The words for a component; those of a storage unit and of forthcoming instances are made from them.
WORDS = {
    "free_mem_cv": "memory spread",
    "free_disk_cv": "disk spread",
    "n1_cnt": "instances on nodes that fail N+1",
    "reserved_mem_cv": "spread of memory kept for failovers",
    "offline_all_cnt": "instances on offline nodes",
    "offline_pri_cnt": "primaries on offline nodes",
    "vcpu_ratio_cv": "CPU spread",
    "cpu_load_cv": "CPU load spread",
    "mem_load_cv": "memory load spread",
    "disk_load_cv": "disk load spread",
    "net_load_cv": "network load spread",
    "pri_tags_score": "primaries with the same exclusion tag",
    "spindles_cv": "spindle spread",
    "location_score": "instances badly placed in locations",
    "location_exclusion_score": "same exclusion tag in one location",
    "reserved_mem_rtotal": "memory kept for failovers",
    "cpu_peak": "worst hour of CPU use",
    "mem_peak": "worst hour of memory use",
    "disk_peak": "worst hour of disk use",
    "net_peak": "worst hour of network use",
}


def words(component: str) -> str:
    name, _, unit = component.partition(":")
    base = name.removesuffix("_forth")
    more = ", with forthcoming instances" * (base != name)
    return WORDS.get(base, base) + (f" of {unit}" if unit else "") + more


def score(before: Side, after: Side | None) -> Markup:
    """Return the weighted components of the score, of the groups that a plan changes or of all."""
    later = {group["name"]: group for group in (after or before).health}
    pairs = [(group, later[group["name"]]) for group in before.health if group["components"]]
    if after:
        pairs = [pair for pair in pairs if pair[0]["score"] != pair[1]["score"]]
    pairs.sort(key=lambda pair: -(pair[0]["score"] or 0))
    if not pairs:
        return Markup() if after else section("Unevenness", element("p", "No group has nodes in use."))
    note = (
        "The score of a group: lower is better. Each component counts with its weight; what is 0 is left out."
    )
    drawn = [_components(pair if after else pair[1:]) for pair in pairs]
    titles = [f"{pair[0]['name']}: {change([figure(end['score']) for end in pair])}" for pair in pairs]
    first = element("h3", titles[0]), drawn[0]
    folded = map(fold, titles[1:], drawn[1:])
    return section("Unevenness by component", element("p", note, class_="quiet"), *first, *folded)


def _components(ends: Sequence[Mapping[str, Any]]) -> Markup:
    """Return the picture of a group: as it is, or as it was and as it will be, on one scale."""
    ends_of = {name: [end["components"].get(name) for end in ends] for name in ends[0]["components"]}
    shown = {name: change([*map(figure, values)]) for name, values in ends_of.items()}
    found = {
        name: values
        for name, values in ends_of.items()
        if any(values) and ("_forth" not in name or shown[name] != shown.get(name.replace("_forth", "")))
    }
    most = max((value for values in found.values() for value in values if value), default=1.0)
    rows = []
    for component, values in sorted(found.items(), key=lambda each: -max(filter(None, each[1]))):
        shares = [(value or 0) / most for value in values]
        label = join((f"{words(component)} ", element("code", component, class_="quiet")))
        drawn = pictures.bar(shares[-1], shares[0] if len(ends) > 1 else None)
        rows.append(pictures.row(label, drawn, shown[component]))
    return element("div", *rows, class_="long")
