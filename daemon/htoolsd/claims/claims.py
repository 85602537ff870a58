"""What is promised at the moment, so that nothing is promised twice.

All of it is in memory and belongs to the event loop.
"""

from collections.abc import Callable
from typing import Any, Literal

import structlog
import trio

from ganeti_htools.planning.decision import Response
from ganeti_htools.planning.promises import Promise
from htoolsd.claims.claim import Claim, Claimant, after_look, kept, made
from htoolsd.sync.queue import Work

_log = structlog.get_logger()

Mode = Literal["auto", "always", "never"]


class Claims:
    """The living claims, by instance.

    ``follows`` tells whether Ganeti is followed, so that jobs tell when claims end.
    """

    def __init__(self, mode: Mode, seconds: float, follows: Callable[[], bool]) -> None:
        self.living = dict[str, Claim]()
        self._follows = follows
        self.limit(mode, seconds)

    def limit(self, mode: Mode, seconds: float) -> None:
        """Whether anything is claimed from now on, and how long a claim without a job lives."""
        self._mode, self._seconds = mode, seconds

    @property
    def active(self) -> bool:
        """Whether decisions claim, and claims count."""
        return self._mode == "always" or (self._mode == "auto" and (self._follows() or bool(self.living)))

    def promises(self) -> tuple[Promise, ...]:
        """What is promised now."""
        now = trio.current_time()
        self._keep({name: claim for name, claim in self.living.items() if now < claim.expires}, "expired")
        return tuple(claim.promise for claim in self.living.values()) if self.active else ()

    def decided(self, response: Response, claimant: Claimant | None) -> None:
        """A decision was made: claim what it promised, if there is a claimant."""
        if not self._follows():  # then requests alone tell what has become of promises
            found = response.there
            self._keep(
                {
                    name: claim
                    for name, claim in self.living.items()
                    if name not in found or not kept(claim.promise, found[name])
                },
                "kept",
            )
        if claimant:
            now = trio.current_time()
            others = {name: claim for name, claim in self.living.items() if name not in response.about}
            new = (made(promise, now, self._seconds, claimant) for promise in response.promises)
            self.living = others | {claim.promise.name: claim for claim in new}

    def restore(self, claim: Claim) -> None:
        """Have a claim of an earlier daemon live on, unless there is a newer one."""
        self.living = {claim.promise.name: claim, **self.living}

    def looked(self, work: Work) -> None:
        """The queue told what unfinished jobs are to do."""
        after = ((name, after_look(claim, work)) for name, claim in self.living.items())
        self._keep({name: claim for name, claim in after if claim}, "no job")

    def cancel(self, name: str) -> bool:
        """End a claim; whether there was one."""
        there = name in self.living
        self._keep({other: claim for other, claim in self.living.items() if other != name}, "cancelled")
        return there

    def wants_work(self) -> bool:
        """Whether it matters what jobs are to do."""
        return bool(self.living)

    def status(self) -> dict[str, Any]:
        """How many live, and whether decisions claim."""
        return {"active": self.active, "living": len(self.living)}

    def _keep(self, claims: dict[str, Claim], why: str) -> None:
        for name in self.living.keys() - claims.keys():
            _log.info("claim ended", instance=name, why=why)
        self.living = claims
