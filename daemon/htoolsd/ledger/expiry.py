"""The ends of claims on a clock that nobody sets.

The ledger has the ends in seconds of the epoch. When the clock of the machine is set, claims that the daemon
knows end when they would have ended before.
"""

from collections.abc import Iterable
from typing import NamedTuple

from htoolsd.ledger.records import Consumer


class _End(NamedTuple):
    """An end by the ledger, the same end on the steady clock, and when it became known there."""

    expires: float
    at: float
    known: float


class ClaimEnds:
    """The ends of the claims that are known, by consumer (uuid). ``now`` is the time of the steady clock."""

    def __init__(self) -> None:
        self._ends: dict[str, _End] = {}

    def note(self, uuid: str, expires: float, seconds: float, now: float) -> None:
        """Note a new claim, which ends in so many seconds."""
        self._ends[uuid] = _End(expires, now + seconds, now)

    def due(self, claims: Iterable[Consumer], read: float, epoch: float, now: float) -> list[Consumer]:
        """Return the claims that have ended, of all claims with an end that the ledger had at ``read``.

        ``epoch`` is the time of the machine's clock, which counts for claims that were not known.
        """
        ends = {uuid: end for uuid, end in self._ends.items() if end.known >= read}
        found = []
        for claim in claims:
            expires, end = claim.expires or 0.0, ends.get(claim.uuid, self._ends.get(claim.uuid))
            if end is None or end.expires != expires:
                end = _End(expires, now + expires - epoch, now)
            ends.setdefault(claim.uuid, end)
            if end.at <= now:
                found.append(claim)
        self._ends = ends
        return found
