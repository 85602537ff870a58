"""The daemon, with decisions that compute until the test lets them go on.

A decision makes GATE.begun and waits until there is a file GATE (environment HTOOLSD_TEST_GATE). With
HTOOLSD_TEST_BUSY it keeps the interpreter busy meanwhile. A request whose text contains "crash" meets a
defect instead.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

from ganeti_htools.deciding.decision import Response, respond
from htoolsd.api import decisions
from htoolsd.process import service

gate = os.environ.get("HTOOLSD_TEST_GATE", "/")


def gated(data: bytes, *more: Any) -> Response:
    if b"crash" in data:
        raise ZeroDivisionError("a defect\nin two lines")
    Path(gate + ".begun").touch()
    while not os.path.exists(gate):
        if "HTOOLSD_TEST_BUSY" in os.environ:
            sum(range(1000))
        else:
            time.sleep(0.005)
    return respond(data, *more)


decisions.respond = gated  # type: ignore[attr-defined, assignment]  # as the module sees it
sys.exit(service.main())
