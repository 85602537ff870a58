"""Tags that ``hmaintain(1)`` sets: on nodes about their maintenance, on instances about their homes.

Nodes are named by their UUIDs, since two names may exceed the length of a tag.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.tags import HOME, LONGEST, MAINTENANCE

_BY, _REASON, _RUN, _ROLL, _ROLLED = (
    f"{MAINTENANCE}:{kind}:" for kind in ("by", "reason", "run", "roll", "rolled")
)
DRAINED = f"{MAINTENANCE}:drained"  # by hmaintain, so it ends that
WAS_OFFLINE = f"{MAINTENANCE}:offline"  # before the maintenance, so it stays
SET_OFFLINE = f"{MAINTENANCE}:set-offline"  # by hmaintain, so it ends that
_INVALID = re.compile(r"[^\w.+*/:@-]", re.ASCII)


class NodeMaintenance(NamedTuple):
    """The maintenance of a node, by its tags.

    ``since`` (UTC, like 20261123T184500Z) and ``by`` are of the first ``start``, empty if nobody said.
    ``runs`` mark the runs at work on it, each with its time first. ``roll`` is the roll that has begun the
    maintenance, ``rolled`` one that has done its work on the node, each empty if there is none.
    """

    since: str
    by: str
    reason: str
    drained: bool
    was_offline: bool
    set_offline: bool
    runs: tuple[str, ...]
    roll: str
    rolled: str


class Home(NamedTuple):
    """The nodes (UUID, or name without one) to which an instance returns; ``secondary`` may be empty."""

    primary: str
    secondary: str = ""


def maintenance_of(node_tags: Iterable[str]) -> NodeMaintenance:
    tags = tuple(node_tags)
    since, _, by = min(_after(_BY, tags), default="").partition(":")
    reason = "; ".join(_after(_REASON, tags))
    runs = tuple(sorted(_after(_RUN, tags)))
    roll, rolled = (min(_after(prefix, tags), default="") for prefix in (_ROLL, _ROLLED))
    drained, was_offline, set_offline = (tag in tags for tag in (DRAINED, WAS_OFFLINE, SET_OFFLINE))
    return NodeMaintenance(since, by, reason, drained, was_offline, set_offline, runs, roll, rolled)


def beginning(run: str, reason: str | None) -> list[str]:
    """Return the tags of a node whose maintenance a run begins."""
    about = [f"{_BY}{run.rpartition(':')[0]}"]
    if reason and reason.strip():
        about.append(f"{_REASON}{reason.strip()}")
    return [MAINTENANCE, *map(_valid, about)]


def run_tag(run: str) -> str:
    """Return the tag that marks a run (TIME:USER:PROCESS) at work on a node."""
    return _valid(f"{_RUN}{run}")


def roll_tag(roll: str) -> str:
    """Return the tag of a node whose maintenance a roll (TIME:USER) begins."""
    return _valid(f"{_ROLL}{roll}")


def rolled_tag(roll: str) -> str:
    """Return the tag of a node on which a roll (TIME:USER) has done its work."""
    return _valid(f"{_ROLLED}{roll}")


def rolled_tags(node_tags: Iterable[str]) -> list[str]:
    """Return the tags of a node that say that a roll has done its work there."""
    return [tag for tag in node_tags if tag.startswith(_ROLLED)]


def about_maintenance(node_tags: Iterable[str]) -> list[str]:
    """Return the tags of a node that end with its maintenance; what a roll has done stays."""
    ours = (tag for tag in node_tags if tag == MAINTENANCE or tag.startswith(f"{MAINTENANCE}:"))
    return [tag for tag in ours if not tag.startswith(_ROLLED)]


def identity(node: Node) -> str:
    """Return the name of a node in tags."""
    return node.uuid or node.name


def home_tag(home: Home) -> str:
    return f"{HOME}{home.primary}{f':{home.secondary}' if home.secondary else ''}"


def home_tags(instance_tags: Iterable[str]) -> list[str]:
    """Return the tags of an instance that name its home."""
    return [tag for tag in instance_tags if tag.startswith(HOME)]


def home_of(instance_tags: Iterable[str]) -> Home | None:
    found = home_tags(instance_tags)
    return Home(*found[0][len(HOME) :].split(":")[:2]) if found else None


def rows_by_identity(cluster: Cluster) -> dict[str, int]:
    """Return the rows of nodes by what tags call them."""
    names = {node.name: row for row, node in enumerate(cluster.nodes)}
    return names | {node.uuid: row for row, node in enumerate(cluster.nodes) if node.uuid}


def _after(prefix: str, tags: Iterable[str]) -> list[str]:
    return [tag[len(prefix) :] for tag in tags if tag.startswith(prefix)]


def _valid(tag: str) -> str:
    """Return a tag that Ganeti accepts: other characters are replaced, what is too long is cut off."""
    return _INVALID.sub("-", re.sub(r"\s+", "_", tag))[:LONGEST]
