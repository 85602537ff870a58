"""A plan that is carried out, watched by a program that waits for news of it."""

import time
from collections.abc import Iterator
from typing import Any

from ganeti_htools.client.asking import PATIENCE, NoAnswerError, RefusedError, ask
from ganeti_htools.client.protocol import Refusal

GOING = ("running", "stopping")  # states in which a plan will still change

LONGEST = 20.0  # seconds that the daemon waits for news
_AWAY = 30.0  # seconds that the daemon may be away, for example while it restarts
_PAUSE = 0.5


def changes(path: str, plan: str) -> Iterator[Any]:
    """Yields the plan as it is, and again each time it has changed, until it has ended.

    Raises NoAnswerError, RefusedError.
    """
    serial, heard = None, time.monotonic()
    while True:
        try:
            patience = PATIENCE + (0 if serial is None else LONGEST)
            news: Any = ask(path, "follow", {"plan": plan, "serial": serial}, patience=patience)
        except (NoAnswerError, RefusedError) as error:
            stopping = isinstance(error, NoAnswerError) or error.kind == Refusal.STOPPING
            if not stopping or time.monotonic() - heard > _AWAY:
                raise
            time.sleep(_PAUSE)
            continue
        heard = time.monotonic()
        if news["serial"] != serial:
            serial = news["serial"]
            yield news
        if news["state"] not in GOING:
            return
