"""Versions of Ganeti, and the rules of its htools that differ between them."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from ganeti_htools.model.errors import DataError


class GanetiVersion(NamedTuple):
    """A version of Ganeti. A candidate (``3.1.0~rc2``), which is not ``final``, is before the release."""

    major: int
    minor: int
    revision: int = 0
    final: bool = True

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.revision}{'' if self.final else '~rc'}"


_FORM = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:~?(alpha|beta|rc)\d*)?(?:[-+].*)?", re.ASCII)


def parse_version(text: str) -> GanetiVersion:
    """Parse a version, such as ``3.1``, ``3.0.2`` or ``3.1.0~rc2``; a revision of the package may follow.

    Raises DataError.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise DataError(f"expected a version of Ganeti such as 3.0 or 3.1.0~rc2, not '{text}'")
    major, minor, revision, candidate = found.groups()
    return GanetiVersion(int(major), int(minor), int(revision or 0), candidate is None)


def reported_version(text: str) -> GanetiVersion | None:
    """Return the version that a Ganeti reports, None if it has a form of its own."""
    try:
        return parse_version(text)
    except DataError:
        return None


@dataclass(frozen=True, slots=True)
class VersionRules:
    """The rules that differ, since a version of Ganeti (``Loader.hs``, ``Hscan.hs``).

    * ``n1_by_unallocated``: as read, a node fails N+1 if its unallocated memory is at most what it keeps
      free for its secondaries. Otherwise it fails if the free memory that it reports is less.
    * ``saves_static_memory``: hscan saves the memory of KVM nodes as ``--static-kvm-node-memory`` has it.
    """

    since: GanetiVersion
    n1_by_unallocated: bool = False
    saves_static_memory: bool = False

    @property
    def name(self) -> str:
        """The first release with these rules, such as 3.1."""
        return f"{self.since.major}.{self.since.minor}"


RULES = (
    VersionRules(GanetiVersion(3, 0, 0, final=False)),
    VersionRules(GanetiVersion(3, 1, 0), n1_by_unallocated=True, saves_static_memory=True),
)
DEFAULT = GanetiVersion(3, 0)


def rules_of(version: GanetiVersion | None) -> VersionRules:
    """Return the rules of a version, by default of 3.0."""
    known = [rules for rules in RULES if rules.since <= (version or DEFAULT)]
    return known[-1] if known else RULES[0]
