"""The process that draws the page: ``python -m htoolsd.report.draw SECONDS``.

It reads what :func:`encode_subject` has written from standard input, and prints the page. It ends itself
after so many seconds of CPU time. A thread of the daemon would take turns with the thread that decides.
"""

import os
import pickle
import signal
import sys
import time
from contextlib import suppress
from typing import Any, NamedTuple

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.pages.page import daemon_page
from ganeti_htools.planning import view
from ganeti_htools.planning.view import View
from htoolsd.metrics.handover import decode, encode

_LOW = 10  # priority


class ReportSubject(NamedTuple):
    """The daemon's knowledge for a report: the cluster, the status, and the entries of the last days."""

    cluster: Cluster
    name: str
    attention: list[dict[str, Any]]
    history: list[dict[str, Any]]
    days: int


def encode_subject(subject: ReportSubject) -> bytes:
    """Return a subject as bytes."""
    return pickle.dumps(subject._replace(cluster=Cluster())) + encode(subject.cluster)


def main() -> None:
    """Print the page."""
    signal.setitimer(signal.ITIMER_PROF, float(sys.argv[1]))
    with suppress(PermissionError):  # a unit may forbid it
        os.nice(_LOW)
    with open(0, "rb") as stream:
        subject: ReportSubject = pickle.load(stream)
        state = view.state_of(decode(stream), View())
    page = daemon_page(
        f"Cluster {subject.name}",
        time.strftime("%Y-%m-%d %H:%M %z"),
        state,
        subject.attention,
        subject.history,
        subject.days,
    )
    sys.stdout.buffer.write(page.encode())


if __name__ == "__main__":
    main()
