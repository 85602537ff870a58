"""Tags with substitutes: what steers decisions stays in force, the words of administrators go.

A tag of ours keeps its beginning, its figures and its own words (``htools-tags(7)``). All others are replaced
part by part. Parts end at colons and where a prefix of the cluster's tags ends, such as that of
``htools:iextags:``. So a tag that begins with a prefix still does.
"""

import re
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise

from ganeti_htools.anonymity.names import UUID, NameKind, Rename
from ganeti_htools.backends.units import decode_key
from ganeti_htools.model import maintenance_tags, placement_tags, tags
from ganeti_htools.model.ignored_tags import KINDS
from ganeti_htools.model.resource_classes import POOL, is_custom, is_disk, is_own
from ganeti_htools.model.storage import TYPE_NAMES
from ganeti_htools.model.units_in_use import POOL_TAG

_WHOLE = {
    *(tags.NO_INTERGROUP, tags.SQUEEZING, tags.MAINTENANCE, tags.PINNED, placement_tags.FIXED),
    *(maintenance_tags.DRAINED, maintenance_tags.WAS_OFFLINE, maintenance_tags.SET_OFFLINE),
}
_FIGURE = re.compile(r"-|[\d.+]+|\d{8}T\d{6}Z", re.ASCII)
_REPAIRS = {
    *("suspend", "pending", "result", "success", "failure", "enoperm"),
    *("fix-storage", "migrate", "failover", "reinstall"),
}


def rename_class(rename: Rename, name: str) -> str:
    """Replace the name of a resource class; those that Ganeti counts stay, except of disk space."""
    if name == POOL or (is_own(name) and not is_disk(name)):
        return name
    kind = NameKind.DISK_CLASS if is_disk(name) else NameKind.CLASS
    return rename(kind if is_custom(name) else NameKind.TAG, name)


def rename_id(rename: Rename, kind: NameKind, name: str) -> str:
    """Replace a UUID, or a name of this kind."""
    return rename(NameKind.UUID if UUID.fullmatch(name) else kind, name)


class TagRenamer:
    """Replaces tags of a cluster with these ``cluster_tags``."""

    def __init__(self, cluster_tags: Iterable[str], rename: Rename) -> None:
        self._rename = rename
        starts = tags.EXCLUSION, tags.DESIRED_LOCATION
        prefixes = {tag[len(start) :] for tag in cluster_tags for start in starts if tag.startswith(start)}
        self._prefixes = tuple(filter(None, prefixes))
        word, name = self._words, partial(rename, NameKind.TAG)
        # By beginning: replaces the rest.
        self._rest: dict[str, Callable[[str], str]] = {
            **dict.fromkeys((tags.EXCLUSION, tags.DESIRED_LOCATION, tags.LOCATION, tags.MIGRATION), word),
            tags.ALLOW_MIGRATION: lambda rest: "::".join(map(word, rest.rsplit("::", 1))),
            tags.BANDWIDTH: self._bandwidth,
            POOL_TAG: partial(self._pool, decode=True),
            tags.STANDBY: lambda rest: self._parts(NameKind.TAG, rest, {"auto"}),
            f"{tags.MAINTENANCE}:reason:": name,
            f"{tags.MAINTENANCE}:": lambda rest: self._parts(
                NameKind.USER, rest, {"by", "run", "roll", "rolled"}
            ),
            tags.HOME: lambda rest: ":".join(
                rename_id(rename, NameKind.NODE, each) for each in rest.split(":")
            ),
            tags.INVENTORY: self._inventory,
            tags.RESOURCE: self._inventory,
            tags.PRICE: lambda rest: self._parts(NameKind.TAG, rest),
            tags.IGNORE: lambda rest: self._parts(NameKind.TAG, rest, {*KINDS}),
            tags.SETUP: lambda rest: self._parts(NameKind.TAG, rest, {"hail", "htoolsd"}),
            tags.AUTOREPAIR: lambda rest: self._parts(NameKind.TAG, rest, _REPAIRS),
            "htools:node:": partial(rename, NameKind.NODE),
            **dict.fromkeys(("htools:on:", "htools:avoid:"), word),
            **dict.fromkeys((placement_tags.APART, placement_tags.SPREAD, placement_tags.TOGETHER), word),
        }
        # Prefixes of our own tags.
        self._kept = {
            ":",
            *(each for each in self._prefixes if any(our.startswith(each) for our in self._rest)),
        }

    def __call__(self, tag: str) -> str:
        """Replace a tag."""
        if tag in _WHOLE:
            return tag
        for beginning, replace in self._rest.items():
            if tag.startswith(beginning):
                return beginning + replace(tag[len(beginning) :])
        return self._words(tag)

    def all(self, names: Iterable[str]) -> tuple[str, ...]:
        """Replace several tags."""
        return tuple(map(self, names))

    def _words(self, text: str) -> str:
        """Replace the parts of a tag or prefix."""
        ends = {len(each) for each in self._prefixes if text.startswith(each)}
        ends |= {end for found in re.finditer(":", text) for end in found.span()} | {len(text)}
        if text in self._kept:
            return text
        parts = (text[start:end] for start, end in pairwise(sorted({0, *ends})))
        return "".join(part if part in self._kept else self._rename(NameKind.TAG, part) for part in parts)

    def _parts(self, kind: NameKind, text: str, own: Iterable[str] = ()) -> str:
        """Replace the parts that are neither figures nor our ``own`` words."""
        return ":".join(
            part if part in own or _FIGURE.fullmatch(part) else rename_id(self._rename, kind, part)
            for part in text.split(":")
        )

    def _bandwidth(self, text: str) -> str:
        *classes, last = text.split("::")
        speed = last if len(classes) == 2 and _FIGURE.fullmatch(last) else self._words(last)
        return "::".join((*map(self._words, classes), speed))

    def _pool(self, text: str, decode: bool = False) -> str:
        kind, slash, key = text.partition("/")
        known = kind if kind in TYPE_NAMES else self._rename(NameKind.TAG, kind)
        return f"{known}{slash}{self._rename(NameKind.UNIT, decode_key(key) if decode else key)}"

    def _inventory(self, text: str) -> str:
        name, colon, figures = text.partition(":")
        known = self._pool(name) if "/" in name else rename_class(self._rename, name)
        return f"{known}{colon}{self._parts(NameKind.TAG, figures) if figures else ''}"
