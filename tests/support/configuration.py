"""Ganeti's own configuration file, for a simulated world."""

import json
from typing import Any

from ganeti_htools.simulator.queries import cluster_info
from ganeti_htools.simulator.storage_units import query_disks
from ganeti_htools.simulator.world import World


def config_data(world: World) -> bytes:
    """What stands in ``config.data``, as far as it tells where disks are."""
    rows = query_disks(world, {})
    document: dict[str, Any] = {
        "cluster": cluster_info(world),
        "nodegroups": {},
        "nodes": {},
        "instances": {
            row["uuid"]: {"name": name, "disks": [disk["uuid"] for disk in row["disks"]]}
            for name, row in rows.items()
        },
        "disks": {disk["uuid"]: disk for row in rows.values() for disk in row["disks"]},
    }
    return json.dumps(document, default=list).encode()
