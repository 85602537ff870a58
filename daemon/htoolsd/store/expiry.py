"""The ends of claims on a clock that nobody sets.

The ledger has the ends in seconds of the epoch. When the clock of the machine is set, claims that the daemon
knows end when they would have ended before.
"""

from collections.abc import Iterable

from htoolsd.store.records import Consumer

_LATE = 600.0  # seconds after its end in which a claim may still be written


class ClaimEnds:
    """The ends of claims on the steady clock, by their ends in the ledger. ``now`` is that clock's time."""

    def __init__(self) -> None:
        self._ends: dict[float, float] = {}

    def note(self, expires: float, seconds: float, now: float) -> None:
        """Note the end of a claim that may be written, even if nobody learns of it: in so many seconds."""
        self._ends[expires] = now + seconds

    def due(self, claims: Iterable[Consumer], epoch: float, now: float) -> list[Consumer]:
        """Return the claims that have ended, of all claims with an end in the ledger.

        ``epoch`` is the time of the machine's clock, which counts for ends that were not known.
        """
        by_end = [(claim.expires or 0.0, claim) for claim in claims]
        for expires, _ in by_end:
            self._ends.setdefault(expires, now + expires - epoch)
        found = [claim for expires, claim in by_end if self._ends[expires] <= now]
        current = {expires for expires, _ in by_end}
        self._ends = {each: at for each, at in self._ends.items() if each in current or at > now - _LATE}
        return found
