"""Tags of an instance that say where it may be (``htools-tags(7)``)."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ganeti_htools.model.cluster import Node

ON = "htools:on:"
NODE = "htools:node:"
TOGETHER = "htools:together:"
APART = "htools:apart:"
SPREAD = "htools:spread:"
FIXED = "htools:fixed"
PREFIXES = (ON, NODE, TOGETHER, APART, SPREAD, FIXED)

# A class of locations, and the name of a set of instances. Each node is a location of the class "".
Distance = tuple[str, str]


class PlacementTags(NamedTuple):
    """The rules of one instance.

    * ``on``: node tags, of which its nodes have one; ``nodes``: names, of which its nodes have one. Empty
      sets allow every node.
    * ``apart``: the sets whose members have different primaries, or primaries at different locations.
    * ``together``: the sets whose members have the same nodes.
    """

    on: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    apart: frozenset[Distance] = frozenset()
    together: frozenset[str] = frozenset()


def has_rules(tags: Iterable[str]) -> bool:
    """Whether an instance has such a tag."""
    return any(tag.startswith(PREFIXES) for tag in tags)


def is_fixed(tags: Iterable[str]) -> bool:
    """Whether no tool plans a move of an instance."""
    return FIXED in tags


def placement_tags(tags: Iterable[str]) -> PlacementTags:
    """Parse the tags of an instance; malformed ones are left out."""
    found: dict[str, set[str]] = {prefix: set() for prefix in PREFIXES}
    for tag in filter(well_formed, tags):
        prefix, name = _split(tag)
        found[prefix].add(name)
    spread = {(location, name) for location, _, name in (each.partition(":") for each in found[SPREAD])}
    apart = {("", name) for name in found[APART]}
    return PlacementTags(
        frozenset(found[ON]), frozenset(found[NODE]), frozenset(apart | spread), frozenset(found[TOGETHER])
    )


def well_formed(tag: str) -> bool:
    """Whether a tag is a complete rule."""
    prefix, name = _split(tag)
    if prefix in ("", FIXED):
        return tag == FIXED
    if prefix == SPREAD:
        location, _, name = name.partition(":")
        return bool(location and name) and ":" not in name
    return bool(name) and (":" not in name or prefix == ON)  # node tags may have colons


def malformed(tags: Iterable[str]) -> list[str]:
    """Return the tags that look like rules and are none."""
    return [tag for tag in tags if tag.startswith(PREFIXES) and not well_formed(tag)]


def tag_of(distance: Distance) -> str:
    """Return the tag of a set whose members keep a distance."""
    location, name = distance
    return f"{SPREAD}{location}:{name}" if location else f"{APART}{name}"


def against(rules: PlacementTags, node: Node) -> Iterator[str]:
    """Yield the rules, as tags, that do not allow a node: of several alternatives none is met."""
    if rules.on and rules.on.isdisjoint(node.tags):
        yield " or ".join(f"{ON}{tag}" for tag in sorted(rules.on))
    if rules.nodes and node.name not in rules.nodes:
        yield " or ".join(f"{NODE}{name}" for name in sorted(rules.nodes))


def _split(tag: str) -> tuple[str, str]:
    """Split a tag into its prefix, empty if it is no rule, and the rest."""
    prefix = next((each for each in PREFIXES if tag.startswith(each)), "")
    return prefix, tag[len(prefix) :]
