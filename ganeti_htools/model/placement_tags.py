"""Tags of an instance that say where it may be (``htools-tags(7)``).

A rule about the nodes of one instance is an entry in :data:`NODE_RULES`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ganeti_htools.model.cluster import Node

TOGETHER = "htools:together:"
APART = "htools:apart:"
SPREAD = "htools:spread:"
FIXED = "htools:fixed"


class NodeRule(NamedTuple):
    """A rule about single nodes, primary and secondary: tags ``prefix``NAME of an instance.

    * ``admits``: whether a node is allowed by one name.
    * ``every``: every name of the instance must allow a node; otherwise one of them is enough.
    * ``colons``: names may have colons, as node tags have.
    """

    prefix: str
    admits: Callable[[Node, str], bool]
    every: bool = False
    colons: bool = False


NODE_RULES = (
    NodeRule("htools:on:", lambda node, tag: tag in node.tags, colons=True),
    NodeRule("htools:node:", lambda node, name: node.name == name),
    NodeRule("htools:avoid:", lambda node, tag: tag not in node.tags, every=True, colons=True),
)
PREFIXES = (*(rule.prefix for rule in NODE_RULES), TOGETHER, APART, SPREAD, FIXED)

# The names of one instance for each of NODE_RULES.
Choice = tuple[frozenset[str], ...]
# A class of locations, and the name of a set of instances. Each node is a location of the class "".
Distance = tuple[str, str]


class PlacementTags(NamedTuple):
    """The rules of one instance.

    * ``choice``: its rules about single nodes.
    * ``apart``: the sets whose members have different primaries, or primaries at different locations.
    * ``together``: the sets whose members have the same nodes.
    """

    choice: Choice = (frozenset(),) * len(NODE_RULES)
    apart: frozenset[Distance] = frozenset()
    together: frozenset[str] = frozenset()


def has_rules(tags: Iterable[str]) -> bool:
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
    choice = tuple(frozenset(found[rule.prefix]) for rule in NODE_RULES)
    return PlacementTags(choice, frozenset(apart | spread), frozenset(found[TOGETHER]))


def well_formed(tag: str) -> bool:
    """Whether a tag is a complete rule."""
    prefix, name = _split(tag)
    if prefix in ("", FIXED):
        return tag == FIXED
    if prefix == SPREAD:
        location, _, name = name.partition(":")
        return bool(location and name) and ":" not in name
    colons = any(rule.colons for rule in NODE_RULES if rule.prefix == prefix)
    return bool(name) and (colons or ":" not in name)


def malformed(tags: Iterable[str]) -> list[str]:
    """Return the tags that look like rules and are none."""
    return [tag for tag in tags if tag.startswith(PREFIXES) and not well_formed(tag)]


def tag_of(distance: Distance) -> str:
    """Return the tag of a set whose members keep a distance."""
    location, name = distance
    return f"{SPREAD}{location}:{name}" if location else f"{APART}{name}"


def against(choice: Choice, node: Node) -> Iterator[str]:
    """Yield the rules, as tags, that do not allow a node; alternatives are one rule."""
    for rule, names in zip(NODE_RULES, choice, strict=True):
        refusing = [f"{rule.prefix}{name}" for name in sorted(names) if not rule.admits(node, name)]
        if rule.every:
            yield from refusing
        elif names and len(refusing) == len(names):
            yield " or ".join(refusing)


def _split(tag: str) -> tuple[str, str]:
    """Split a tag into its prefix, empty if it is no rule, and the rest."""
    prefix = next((each for each in PREFIXES if tag.startswith(each)), "")
    return prefix, tag[len(prefix) :]
