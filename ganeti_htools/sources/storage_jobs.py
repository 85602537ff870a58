"""``--ask-storage``: storage data of a running Ganeti, which only jobs return.

On the master node disk locations are read from Ganeti's configuration file instead.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ganeti_htools.backends import ganeti_storage
from ganeti_htools.backends.ganeti_storage import DiskLocations
from ganeti_htools.files import read_bytes
from ganeti_htools.luxi import opcodes, queries
from ganeti_htools.luxi.client import LuxiClient, LuxiError
from ganeti_htools.luxi.query_jobs import results_of
from ganeti_htools.model import known_storage
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError, on_one_line
from ganeti_htools.model.known_storage import UnitReports, UnitSpace
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate

# A job that asks for units holds locks of its nodes until the slowest has answered; one that asks for
# instances looks at all of them for each.
NODES, INSTANCES = 10, 200
SECONDS = 60.0  # to wait for a job
_SHOWN = 5  # instances in a warning

Warn = Callable[[str], None]  # called with one line for the user


async def with_storage(ganeti: LuxiClient, cluster: Cluster, warn: Warn) -> Cluster:
    """Return the cluster with the units of its disks and nodes.

    A node without a valid answer keeps its single figure. Raises HtoolsError if disk locations cannot be
    found.
    """
    found = await disk_locations(ganeti, cluster)
    for line in found.wrong:
        warn(f"Warning: {line}")
    cluster = known_storage.with_disks(cluster, found.disks)
    nodes = [node.name for node in cluster.nodes if node.t_mem]
    reports: dict[str, Any] = {}
    shared: Mapping[DesiredUnit, UnitSpace] = {}
    for some in chunks(nodes, NODES):
        kinds = known_storage.queryable_types(cluster)
        try:
            told, pools, wrong = await query_units(ganeti, some, kinds, SECONDS, not shared)
        except LuxiError as error:
            told, pools, wrong = {}, {}, (str(error),)
        reports |= told
        shared = shared or pools
        for line in wrong:
            warn(f"Warning: {line}")
    silent = [name for name in nodes if name not in reports]
    if silent:
        warn(f"Warning: storage units of {', '.join(silent)} are not known")
    reports = dict(known_storage.with_shared_units(cluster, reports, shared))
    return known_storage.with_storage(cluster, reports, known_storage.units_to_query(cluster))


async def query_units(
    ganeti: LuxiClient, nodes: Sequence[str], kinds: Sequence[StorageType], seconds: float, shared: bool
) -> tuple[UnitReports, Mapping[DesiredUnit, UnitSpace], tuple[str, ...]]:
    """Return the units of nodes, the pools, and lines about invalid answers; offline nodes return none.

    With ``shared`` the first node is asked for the pools of all nodes. Raises LuxiError.
    """
    asked = {kind: nodes for kind in kinds if kind.local}
    asked |= {kind: nodes[:1] for kind in kinds if kind.pool and shared}
    if not asked:
        return {}, {}, ()
    work = [opcodes.query_storage(kind.value, some) for kind, some in asked.items()]
    results = dict(zip(asked, await results_of(ganeti, work, "storage units", seconds), strict=True))
    found, wrong = ganeti_storage.reports({kind: result for kind, result in results.items() if kind.local})
    pools, more = ganeti_storage.reports({kind: result for kind, result in results.items() if kind.pool})
    return found, pools.get(nodes[0], {}), (*wrong, *more)


def volume_group_warnings(cluster: Cluster, remedy: str) -> list[str]:
    """Warn of disks on volume groups that some nodes may lack, where no node's storage units are known.

    Disk locations are read from Ganeti's configuration on the master; without it there are no warnings.
    ``remedy`` is what to do.
    """
    try:
        disks = ganeti_storage.configured_disks(read_bytes(configuration_file())).disks
    except HtoolsError:
        return []
    found = known_storage.other_volume_groups(known_storage.with_disks(cluster, disks))
    warnings = []
    for group, names in found.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        listed = f"{', '.join(names[:_SHOWN])}{more}"
        where = f"disks of {listed} are on volume group {on_one_line(group)}"
        warnings.append(f"Warning: {where}, and it is not known which nodes have it; {remedy}")
    return warnings


async def disk_locations(ganeti: LuxiClient, cluster: Cluster) -> DiskLocations:
    """Find the locations of all disks. Raises HtoolsError."""
    if ganeti.path == queries.default_socket():
        try:
            return ganeti_storage.configured_disks(read_bytes(configuration_file()))
        except HtoolsError:
            pass  # it may be asked for
    names = [row.name for row in cluster.instances if row.template is not DiskTemplate.DISKLESS]
    parts = [await query_disk_locations(ganeti, some, cluster, SECONDS) for some in chunks(names, INSTANCES)]
    return DiskLocations(
        {name: disks for part in parts for name, disks in part.disks.items()},
        tuple(line for part in parts for line in part.wrong),
    )


async def query_disk_locations(
    ganeti: LuxiClient, names: Sequence[str], cluster: Cluster, seconds: float
) -> DiskLocations:
    """Query the locations of instances' disks by a job. Raises LuxiError, DataError."""
    work = [opcodes.query_disks(names)]
    [result] = await results_of(ganeti, work, "disks of instances", seconds)
    pools = {group.uuid: group.rbd_pool for group in cluster.groups if group.rbd_pool}
    return ganeti_storage.queried_disks(result, cluster.default_units, pools)


def chunks(names: Sequence[str], most: int) -> list[Sequence[str]]:
    """Split names into parts of at most ``most``."""
    return [names[start : start + most] for start in range(0, len(names), most)]


def configuration_file() -> str:
    """Return the path of Ganeti's configuration on the master node."""
    return os.environ.get("GANETI_ROOTDIR", "") + "/var/lib/ganeti/config.data"
