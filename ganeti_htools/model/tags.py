"""The tags that steer decisions (``htools(1)``, ``hbal(1)``).

Exclusion: instances sharing such a tag avoid sharing a primary node. Migration: a node sends
instances only to nodes that may receive all of its migration tags. Location: nodes sharing such a
tag fail together. Desired location: an instance prefers a node with the same location tag. Bandwidth:
how fast nodes with such tags reach each other (Ganeti's design "migration speed accounting in hbal").
No intergroup: instances are not moved out of the group, or between any groups of the cluster.
Pinned: policies of the daemon leave the instance where it is (``htoolsd(8)``).
Price: how much copying of the instance counts, compared with others (``hbal(1)``).
Resource: how much an instance demands of a custom resource class (``htools(1)``).
Inventory: what an administrator has set about a resource class of a node (``htoolsctl(1)``).
Squeezing: a run of hsqueeze is at work on the node, or was cut off there (``hsqueeze(1)``).
Maintenance: the node takes no instances, like a drained one.
Setup: the default iallocator of the cluster before ``htoolsctl setup`` (``htoolsctl(1)``).
Autorepair: which repairs of instances are allowed, and those under way (``harep(1)``).
Ignore: kinds of instance tags that are switched off.
Home: the nodes to which an instance returns when their maintenance ends (``hmaintain(1)``).
"""

import math
import re
from collections.abc import Iterable

from ganeti_htools.model.resource_classes import is_custom, is_own

EXCLUSION = "htools:iextags:"
STANDBY = "htools:standby:"
STANDBY_AUTO = f"{STANDBY}auto"  # what hsqueeze itself gives and takes
SQUEEZING = "htools:squeezing"
MAINTENANCE = "htools:maintenance"
HOME = "htools:home:"
MIGRATION = "htools:migration:"
ALLOW_MIGRATION = "htools:allowmigration:"
LOCATION = "htools:nlocation:"
DESIRED_LOCATION = "htools:desiredlocation:"
BANDWIDTH = "htools:bandwidth:"
NO_INTERGROUP = "htools:nointergroup"
PINNED = "htools:pinned"
PRICE = "htools:price:"
RESOURCE = "htools:resource:"
INVENTORY = "htools:inventory:"
SETUP = "htools:setup:iallocator:"
AUTOREPAIR = "ganeti:watcher:autorepair:"
IGNORE = "htools:ignore:"
MAX_AMOUNT = 1 << 40
LONGEST = 128  # characters of a tag (``constants.MAX_TAG_LEN``)
_VALID = re.compile(r"[\w.+*/:@-]+")  # ``objects.TaggableObject.VALID_TAG_RE``
MAX_SPEED = 1 << 40  # Mbit/s; larger figures are taken for damage


def is_valid(tag: str) -> bool:
    """Whether Ganeti accepts a tag."""
    return len(tag) <= LONGEST and _VALID.fullmatch(tag) is not None


def _suffixes(prefix: str, tags: Iterable[str]) -> list[str]:
    return [tag[len(prefix) :] for tag in tags if tag.startswith(prefix)]


def _starting(prefixes: Iterable[str], tags: Iterable[str]) -> tuple[str, ...]:
    starts = tuple(prefixes)
    return tuple(tag for tag in tags if tag.startswith(starts)) if starts else ()


def standby(node_tags: Iterable[str]) -> bool:
    """Whether a node with such tags may be powered up if it is offline (``hsqueeze(1)``)."""
    return any(tag.startswith(STANDBY) for tag in node_tags)


def standby_priority(node_tags: Iterable[str]) -> float:
    """Return the lowest number of the tags ``htools:standby:N``, infinity without one.

    Nodes with lower numbers are powered up first, an extension that Ganeti's design "hsqueeze" names.
    """
    names = [name for name in _suffixes(STANDBY, node_tags) if name.isascii() and name.isdigit()]
    return min((int(name) for name in names if len(name) < 20), default=math.inf)


def exclusion_prefixes(cluster_tags: Iterable[str]) -> tuple[str, ...]:
    """Prefixes of the instance tags that exclude each other, from the cluster's tags."""
    return tuple(filter(None, _suffixes(EXCLUSION, cluster_tags)))


def exclusion_tags(prefixes: Iterable[str], instance_tags: Iterable[str]) -> tuple[str, ...]:
    """The exclusion tags among an instance's tags."""
    return _starting(prefixes, instance_tags)


def desired_locations(cluster_tags: Iterable[str], instance_tags: Iterable[str]) -> frozenset[str]:
    """Location tags an instance would like its primary node to have."""
    return frozenset(_starting(filter(None, _suffixes(DESIRED_LOCATION, cluster_tags)), instance_tags))


def location_tags(cluster_tags: Iterable[str], node_tags: Iterable[str]) -> frozenset[str]:
    """Common-failure domains a node belongs to."""
    return frozenset(_starting((p + ":" for p in _suffixes(LOCATION, cluster_tags)), node_tags))


def migration_tags(cluster_tags: Iterable[str], node_tags: Iterable[str]) -> frozenset[str]:
    """Migration classes a node belongs to."""
    return frozenset(_starting((p + ":" for p in _suffixes(MIGRATION, cluster_tags)), node_tags))


def receivable_migration_tags(cluster_tags: Iterable[str], node_tags: Iterable[str]) -> frozenset[str]:
    """Migration classes a node can receive: its own and those allowed by ``FROM::TO`` cluster tags."""
    cluster_tags = tuple(cluster_tags)
    own = migration_tags(cluster_tags, node_tags)
    pairs = [rule.rsplit("::", 1) for rule in _suffixes(ALLOW_MIGRATION, cluster_tags)]
    return own | {pair[0] for pair in pairs if len(pair) == 2 and pair[1] in own}


def bandwidth_tags(
    cluster_tags: Iterable[str], group_tags: Iterable[str], node_tags: Iterable[str]
) -> frozenset[str]:
    """Return the network classes of a node. A tag of the node hides one of its group with the same prefix,
    and that one hides the cluster's.
    """
    cluster_tags = tuple(cluster_tags)
    prefixes = [prefix + ":" for prefix in _suffixes(BANDWIDTH, cluster_tags)]
    result: tuple[str, ...] = ()
    for level in (node_tags, group_tags, cluster_tags):
        known = tuple(tag.partition(":")[0] + ":" for tag in result)
        result += tuple(tag for tag in _starting(prefixes, level) if not tag.startswith(known))
    return frozenset(result)


def bandwidths(cluster_tags: Iterable[str]) -> list[tuple[str, str, int]]:
    """Bandwidth (Mbit/s) between pairs of network classes, from cluster tags ``FROM::TO::SPEED``."""
    rules = [rule.split("::") for rule in _suffixes(BANDWIDTH, cluster_tags)]
    return [
        (rule[0], rule[1], int(rule[2]))
        for rule in rules
        if len(rule) == 3 and rule[2].isascii() and rule[2].isdigit() and 0 < int(rule[2]) <= MAX_SPEED
    ]


def demand(name: str, amount: int) -> str:
    """Return the tag that demands an amount of a custom resource class."""
    return f"{RESOURCE}{name}:{amount}"


def demands(instance_tags: Iterable[str]) -> dict[str, int]:
    """Return an instance's demand for each custom resource class, from its tags ``CLASS:AMOUNT``.

    Of several amounts of a class the largest counts. Malformed tags demand nothing.
    """
    found: dict[str, int] = {}
    for name, amount in filter(None, map(_demand, _suffixes(RESOURCE, instance_tags))):
        found[name] = max(amount, found.get(name, 0))
    return found


def malformed_demands(instance_tags: Iterable[str]) -> list[str]:
    return [tag for tag in instance_tags if tag.startswith(RESOURCE) and not _demand(tag[len(RESOURCE) :])]


def price_factor(instance_tags: Iterable[str]) -> float:
    """Return the factor of the price of copying an instance, the largest of several, 1 without a tag."""
    return max(filter(None, map(_factor, _suffixes(PRICE, instance_tags))), default=1.0)


def malformed_prices(instance_tags: Iterable[str]) -> list[str]:
    return [tag for tag in instance_tags if tag.startswith(PRICE) and not _factor(tag[len(PRICE) :])]


def _factor(text: str) -> float | None:
    found = re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII)
    return float(text) if found and float(text) > 0 else None


def _demand(text: str) -> tuple[str, int] | None:
    name, _, amount = text.partition(":")
    if not is_custom(name) or is_own(name) or not (amount.isascii() and amount.isdigit()):
        return None
    number = int(amount) if len(amount) < 20 else 0
    return (name, number) if 0 < number <= MAX_AMOUNT else None
