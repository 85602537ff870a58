"""What nodes had when they last reported: it is known of nodes that are off, and outlives the daemon.

It is written as soon as a node is seen, and again when it is found with other figures or stops to report, so
whenever the daemon is killed the file has what standby nodes will have.
"""

from collections.abc import Mapping
from dataclasses import replace

import structlog
import trio

from ganeti_htools.backends import standby
from ganeti_htools.files import write_text
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.model.without_instances import reports, without_instances
from htoolsd import regular_file

_log = structlog.get_logger()

_LARGEST = 64 << 20  # bytes

# Nodes as they were when they last reported, but without their instances, by their names.
LastSeen = Mapping[str, Node]


def revised(known: LastSeen, before: Cluster | None, now: Cluster) -> LastSeen:
    """What is known of the nodes of a cluster now; the same object if nothing is new.

    What a node has left may change all the time; that is only taken when the node has stopped to report.
    """
    reported = {node.name: node for node in before.nodes if reports(node)} if before else {}
    names = {node.name for node in now.nodes}
    gone = [reported[node.name] for node in now.nodes if not reports(node) and node.name in reported]
    new = [
        node
        for node in now.nodes
        if reports(node) and (node.name not in known or _size(node) != _size(known[node.name]))
    ]
    found = {name: node for name, node in known.items() if name in names}
    found |= {node.name: node for node in without_instances(now, new)} if new else {}
    found |= {node.name: node for node in without_instances(before, gone)} if before and gone else {}
    return known if found == known else found


def _size(node: Node) -> object:
    """What a node has, whatever is on it."""
    units = None if node.storage is None else [(unit.desired, unit.total) for unit in node.storage]
    return node.group, node.t_mem, node.t_dsk, node.t_cpu, node.n_cpu, node.t_spindles, node.excl_stor, units


def with_last_seen(cluster: Cluster, known: LastSeen) -> Cluster:
    """The cluster with what is known of nodes that do not report. The same object if that is nothing new."""
    silent = (node.name for node in cluster.nodes if not reports(node))
    standby = tuple(known[name] for name in silent if name in known)
    return cluster if cluster.standby == standby else replace(cluster, standby=standby)


class LastSeenFile:
    """The file in which that is kept; none if ``path`` is empty. Errors are logged, each once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._error = ""

    async def read(self) -> LastSeen:
        """What an earlier daemon has written; nothing if it is damaged, since nodes that report tell anew."""
        if not self._path:
            return {}
        try:
            written = await trio.to_thread.run_sync(regular_file.read, self._path, _LARGEST)
            return {node.name: node for node in standby.parse(written.decode(), self._path)}
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError, DataError) as error:
            _log.error("what standby nodes have cannot be read", path=self._path, error=str(error))
            return {}

    async def write(self, known: LastSeen, cluster: Cluster) -> None:
        """Replace it."""
        if not self._path:
            return
        nodes = [known[name] for name in sorted(known)]
        try:
            await trio.to_thread.run_sync(write_text, self._path, standby.dump(cluster, nodes))
            self._error = ""
        except HtoolsError as error:
            if str(error) != self._error:
                self._error = str(error)
                _log.error("what standby nodes have is not recorded", error=self._error)
