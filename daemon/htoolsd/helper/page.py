"""The page about the cluster, work of the helper."""

import sys
from typing import Any

from ganeti_htools import machine
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.pages.page import daemon_page
from ganeti_htools.planning import view
from ganeti_htools.planning.view import View


def work(
    cluster: Cluster,
    name: str,
    attention: list[dict[str, Any]],
    under_way: dict[str, str],
    history: list[dict[str, Any]],
    days: int,
    hours: dict[str, list[float]],
) -> None:
    """Print the page about a cluster: what needs attention, what is under way, the history of some days, and
    the load of nodes by hour of the week.
    """
    state = view.state_of(cluster, View())
    now = machine.local_time("%Y-%m-%d %H:%M %z")
    page = daemon_page(f"Cluster {name}", now, state, attention, under_way, history, days, hours)
    sys.stdout.buffer.write(page.encode())
