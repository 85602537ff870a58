"""Follows and stops a plan that the daemon carries out."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ganeti_htools.client.calls import PATIENCE, CallRefusedError, NoReplyError, ask
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

    plan: Any
    lines: list[tuple[str, str]]

    @property
    def ended(self) -> bool:
        """Whether the plan has ended."""
        return self.plan["state"] not in _GOING


def follow(path: str, plan: str) -> Iterator[PlanChange]:
    """Yield the plan now and after each change, until it has ended. Raises NoReplyError, CallRefusedError."""
    serial, heard, told, stopped = None, time.monotonic(), 0, False
    while True:
        try:
            patience = PATIENCE + (0 if serial is None else LONGEST)
            news: Any = ask(path, "follow", {"plan": plan, "serial": serial}, patience=patience)
        except (NoReplyError, CallRefusedError) as error:
            if isinstance(error, CallRefusedError):
                if error.kind != Refusal.STOPPING:
                    raise
                stopped = True
            if time.monotonic() - heard > _AWAY:
                if stopped:
                    raise NoReplyError(_STOPPED) from error
                raise
            time.sleep(_PAUSE)
            continue
        heard, stopped = time.monotonic(), news["state"] == _STOPPING
        if news["serial"] == serial:
            time.sleep(_PAUSE)  # a daemon that stops answers at once, and one with too many calls that wait
        else:
            change = PlanChange(news, news["log"][told:])
            serial, told = news["serial"], len(news["log"])
            yield change
        if news["state"] not in _GOING:
            return


def cancel(path: str, plan: str, now: bool) -> None:
    """Stop the plan after the running jobs, or ``now``. A plan that has ended is left alone.

    Raises NoReplyError, CallRefusedError.
    """
    try:
        ask(path, "cancel", {"plan": plan, "now": now})
    except CallRefusedError as error:
        if error.kind != Refusal.PLAN:
            raise
