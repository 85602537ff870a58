"""The living claims, in memory. Decisions count them, so no resource is promised twice.

All calls belong to the event loop.
"""

from typing import Any

import structlog
import trio

from ganeti_htools.deciding.decision import Response
from ganeti_htools.deciding.promises import Promise
from htoolsd.claims.claim import Claim, Claimant, check_claim, is_fulfilled, new_claim
from htoolsd.config.settings import Settings
from htoolsd.events import DaemonEvent
from htoolsd.sync.job_queue import PendingWork
from htoolsd.sync.polls import Polled

_log = structlog.get_logger()


class Claims:
    """The living claims, by instance.

    ``follows_ganeti``: the daemon has seen Ganeti's cluster and job queue, so that jobs end claims.
    """

    def __init__(self, settings: Settings) -> None:
        self.living = dict[str, Claim]()
        self.follows_ganeti = False
        self._settings = settings

    def note(self, event: DaemonEvent) -> None:
        """Note that Ganeti is followed."""
        if isinstance(event, Polled):
            self.follows_ganeti = event.model.cluster is not None

    @property
    def active(self) -> bool:
        """Whether decisions claim, and claims count."""
        mode = self._settings.now.claims
        return mode == "always" or (mode == "auto" and (self.follows_ganeti or bool(self.living)))

    def promises(self) -> tuple[Promise, ...]:
        """Return the promises that count now; expired claims end."""
        now = trio.current_time()
        self._retain({name: claim for name, claim in self.living.items() if now < claim.expires}, "expired")
        return tuple(claim.promise for claim in self.living.values()) if self.active else ()

    def record(self, response: Response, claimant: Claimant | None) -> None:
        """Claim what a decision promised, if there is a claimant.

        Claims that the request shows as fulfilled end.
        """
        if not self.follows_ganeti:  # only requests show then which promises are fulfilled
            present = response.promised_instances
            self._retain(
                {
                    name: claim
                    for name, claim in self.living.items()
                    if name not in present or not is_fulfilled(claim.promise, present[name])
                },
                "fulfilled",
            )
        if claimant:
            now, seconds = trio.current_time(), self._settings.now.claim_seconds
            others = {name: claim for name, claim in self.living.items() if name not in response.instances}
            new = (new_claim(promise, now, seconds, claimant) for promise in response.promises)
            self.living = others | {claim.promise.name: claim for claim in new}

    def promise(self, promise: Promise) -> None:
        """Claim what a plan has made room for, as by hand."""
        claim = new_claim(promise, trio.current_time(), self._settings.now.claim_seconds, "hand")
        self.living = {**self.living, promise.name: claim}

    def restore(self, claim: Claim) -> None:
        """Add a claim of an earlier daemon, unless there is a newer one on its instance."""
        self.living = {claim.promise.name: claim, **self.living}

    def check(self, pending: PendingWork) -> None:
        """End the claims that no unfinished job carries out."""
        checked = ((name, check_claim(claim, pending)) for name, claim in self.living.items())
        self._retain({name: claim for name, claim in checked if claim}, "no job")

    def cancel(self, name: str) -> bool:
        """End the claim on an instance; return whether there was one."""
        found = name in self.living
        self._retain({other: claim for other, claim in self.living.items() if other != name}, "cancelled")
        return found

    def needs_queue(self) -> bool:
        """Whether the opcodes of unfinished jobs matter."""
        return bool(self.living)

    def status(self) -> dict[str, Any]:
        """Return the number of living claims, and whether decisions claim."""
        return {"active": self.active, "living": len(self.living)}

    def _retain(self, claims: dict[str, Claim], reason: str) -> None:
        for name in self.living.keys() - claims.keys():
            _log.info("claim ended", instance=name, reason=reason)
        self.living = claims
