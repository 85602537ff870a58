"""Follows a plan that the daemon carries out."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ganeti_htools.client.answers import PlanAnswer
from ganeti_htools.client.calls import (
    PATIENCE,
    CallRefusedError,
    NoReplyError,
    Pause,
    Steps,
    asking,
)
from ganeti_htools.client.protocol import Refusal

_STOPPING = "stopping"
_GOING = ("running", _STOPPING)  # states in which a plan will still change

LONGEST = 20.0  # seconds that the daemon waits for news
_AWAY = 30.0  # seconds that the daemon may be away, for example while it restarts
_PAUSE = 0.5
_STOPPED = "htoolsd has stopped: it submits no more jobs of the plan; those under way go on in Ganeti"


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A plan as the daemon describes it, and the new lines of its log, each with its kind."""

    plan: PlanAnswer
    lines: Sequence[tuple[str, str]]

    @property
    def ended(self) -> bool:
        """Whether the plan has ended."""
        return self.plan["state"] not in _GOING


class FollowedPlan:
    """The changes of a plan until it has ended. ``path`` is the daemon's socket."""

    def __init__(self, path: str, plan: str) -> None:
        self._path, self._plan = path, plan
        self._serial: int | None = None
        self._told, self._stopped, self._ended = 0, False, False

    def next_change(self) -> Steps[PlanChange | None]:
        """Return the plan now or after its next change; None once it has ended.

        Raises NoReplyError, CallRefusedError.
        """
        heard = time.monotonic()
        while not self._ended:
            patience = PATIENCE + (0 if self._serial is None else LONGEST)
            wishes = {"plan": self._plan, "serial": self._serial}
            try:
                news: PlanAnswer = yield from asking(self._path, "follow", wishes, patience=patience)
            except (NoReplyError, CallRefusedError) as error:
                if isinstance(error, CallRefusedError):
                    if error.kind != Refusal.STOPPING:
                        raise
                    self._stopped = True
                if time.monotonic() - heard > _AWAY:
                    if self._stopped:
                        raise NoReplyError(_STOPPED) from error
                    raise
                yield Pause(_PAUSE)
                continue
            heard, self._stopped = time.monotonic(), news["state"] == _STOPPING
            self._ended = news["state"] not in _GOING
            if news["serial"] != self._serial:
                change = PlanChange(news, news["log"][self._told :])
                self._serial, self._told = news["serial"], len(news["log"])
                return change
            yield Pause(_PAUSE)  # a daemon that stops answers at once, and one with too many calls that wait
        return None
