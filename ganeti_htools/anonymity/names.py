"""Substitutes of names: the same for the same name, and sorted as the names of their kind are.

Ties and plans depend on the order of names, so they stay the same.
"""

import re
from collections.abc import Callable, Iterable
from enum import Enum
from itertools import count

from ganeti_htools.model.resource_classes import class_of_unit
from ganeti_htools.model.storage import DesiredUnit, StorageType


class NameKind(Enum):
    """A kind of names, with the form of its substitutes: a fill and a number become part of it."""

    NODE = "node-{0}{1}"
    INSTANCE = "instance-{0}{1}"
    GROUP = "group-{0}{1}"
    TAG = "tag-{0}{1}"  # a part of a tag
    UNIT = "storage-{0}{1}"
    CLASS = "CUSTOM_CLASS_{0}{1}"
    DISK_CLASS = "CUSTOM_DISK_MIB_{0}{1}"
    NETWORK = "network-{0}{1}"
    OS = "os-{0}{1}"
    USER = "user-{0}{1}"
    HOST = "host-{0}{1}"
    UUID = "00000000-0000-4000-8{0:0>3}-{1:0>12}"
    MAC = "mac-{0}{1}"
    ADDRESS = "address-{0}{1}"
    PATH = "/path-{0}{1}"
    WORD = "word-{0}{1}"  # unknown, in free text


# Returns the substitute of a name of a kind.
Rename = Callable[[NameKind, str], str]

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class Collector:
    """A :data:`Rename` that notes the names and changes nothing."""

    def __init__(self) -> None:
        self.names = set[tuple[NameKind, str]]()

    def __call__(self, kind: NameKind, name: str) -> str:
        if name:
            self.names.add((kind, name))
        return name


class Substitutes:
    """The substitutes of names, a :data:`Rename`. The empty name stays; an unknown name gets the next number.

    No substitute looks like one of the names: the form is filled up until that holds.
    """

    def __init__(self, names: Iterable[tuple[NameKind, str]]) -> None:
        ordered = sorted(set(names), key=lambda each: each[1])
        heads = [kind.value.partition("{1")[0] for kind in NameKind]
        self._fill = next(
            fill
            for fill in map("A".__mul__, count())
            if not any(name.startswith(tuple(head.format(fill) for head in heads)) for _, name in ordered)
        )
        self._of: dict[tuple[NameKind, str], str] = {}
        self._met = dict.fromkeys(NameKind, 0)
        totals = {kind: sum(each is kind for each, _ in ordered) for kind in NameKind}
        self._width = {kind: len(str(total)) for kind, total in totals.items()}
        for name in ("", *(name for kind, name in ordered if kind is NameKind.UNIT)):
            self._of |= self._classes(name, self(NameKind.UNIT, name))
        for kind, name in ordered:
            self(kind, name)

    @staticmethod
    def _classes(key: str, new: str) -> dict[tuple[NameKind, str], str]:
        """Return substitutes of the resource classes of disk space on units with this key."""
        found: dict[tuple[NameKind, str], str] = {}
        for each in StorageType:
            plain, substitute = class_of_unit(DesiredUnit(each, key)), class_of_unit(DesiredUnit(each, new))
            hashed = class_of_unit(DesiredUnit(each, key), frozenset({plain}))
            found |= dict.fromkeys(((NameKind.DISK_CLASS, plain), (NameKind.DISK_CLASS, hashed)), substitute)
        return found

    def __call__(self, kind: NameKind, name: str) -> str:
        if name and (kind, name) not in self._of:
            self._met[kind] += 1
            number = f"{self._met[kind]:0{self._width[kind]}}"
            self._of[kind, name] = kind.value.format(self._fill, number)
        return self._of.get((kind, name), name)

    @property
    def by_name(self) -> dict[str, tuple[NameKind, str]]:
        """The substitutes by name, with the kind; the first kind for a name of several kinds."""
        order = {kind: number for number, kind in enumerate(NameKind)}
        found = sorted(self._of.items(), key=lambda each: order[each[0][0]], reverse=True)
        return {name: (kind, substitute) for (kind, name), substitute in found if name != substitute}
