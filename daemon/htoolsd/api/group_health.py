"""The health of node groups, as ``status`` tells it."""

from typing import Any

import trio

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning import group_health
from htoolsd.sync.sync import Sync
from htoolsd.sync.threads import ROW_BYTES, run_by_size

PATIENCE = 1.0  # seconds that an answer waits for it


class GroupHealth:
    """Found out when it is asked for, once for each cluster; large ones in a thread."""

    def __init__(self, sync: Sync) -> None:
        self._sync = sync
        self._begun: Cluster | None = None
        self._told: list[dict[str, Any]] | None = None

    async def told(self) -> list[dict[str, Any]] | None:
        """Each group as JSON; as it was before while that takes longer, None if nothing is known yet."""
        cluster = self._sync.model.cluster
        if cluster is not None and cluster is not self._begun:
            self._begun, size = cluster, (len(cluster.nodes) + len(cluster.instances)) * ROW_BYTES

            def work() -> None:
                self._told = group_health.told(cluster)

            with trio.move_on_after(PATIENCE):
                await run_by_size(size, work, abandon=True)
        return self._told
