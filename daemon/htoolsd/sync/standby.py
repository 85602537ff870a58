"""Standby nodes: the figures that nodes last reported, kept in a file for the time when they are powered
down.

The file is written when a node first reports, when its figures change, and when it stops to report. It is
therefore up to date whenever the daemon is killed.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import structlog
import trio

from ganeti_htools.backends import standby
from ganeti_htools.files import read_regular_file, write_text
from ganeti_htools.model.cluster import Cluster, Node
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.model.without_instances import reports, without_instances
from htoolsd.damaged_files import set_aside
from htoolsd.threads import Replacements, effect

_log = structlog.get_logger()

_RETRY = 10.0  # seconds after a failed write
_LAST_SECONDS = 2.0  # for the last write
_FILE_BYTES = 64 << 20  # bytes

# Nodes as they last reported, without their instances, by name.
StandbyNodes = Mapping[str, Node]


def revise_standby(known: StandbyNodes, before: Cluster | None, now: Cluster) -> StandbyNodes:
    """Return the standby figures of a cluster's nodes; the same object if nothing is new.

    Free amounts change all the time, so they are recorded only when a node stops to report.
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
    """Return the figures of a node that do not depend on its instances."""
    units = None if node.storage is None else [(unit.desired, unit.total) for unit in node.storage]
    return node.group, node.t_mem, node.t_dsk, node.t_cpu, node.n_cpu, node.t_spindles, node.excl_stor, units


def with_standby(cluster: Cluster, known: StandbyNodes) -> Cluster:
    """Return the cluster with the figures of nodes that do not report; the same object if nothing is new."""
    silent = (node.name for node in cluster.nodes if not reports(node))
    found = tuple(known[name] for name in silent if name in known)
    return cluster if cluster.standby == found else replace(cluster, standby=found)


class StandbyFile:
    """The file with the standby figures; with an empty ``path``, none. Each error is logged once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._error = ""
        self._waiting: tuple[StandbyNodes, Cluster] | None = None
        self._news = trio.Event()
        self._replacements = Replacements()

    async def read(self) -> StandbyNodes:
        """Return the figures in the file. Nodes whose row is damaged are left out."""
        if not self._path:
            return {}
        content = b""
        try:
            content = await effect(read_regular_file, self._path, _FILE_BYTES)
            nodes = standby.parse(content.decode(), self._path)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, DataError) as error:
            _log.error("figures of standby nodes not read", path=self._path, error=str(error))
            nodes = standby.parse_readable(content.decode(errors="replace"), self._path)
            if not isinstance(error, OSError):
                with suppress(OSError):
                    await effect(set_aside, self._path)
        return {node.name: node for node in nodes}

    def put(self, known: StandbyNodes, cluster: Cluster) -> None:
        """Have the content of the file replaced soon."""
        if self._path:
            self._waiting = known, cluster
            self._news.set()

    async def run(self) -> None:
        """Write the newest figures until cancelled, again and again while that fails."""
        try:
            while True:
                await self._news.wait()
                self._news = trio.Event()
                await self.write()
                if self._waiting is not None:
                    self._news.set()
                    await trio.sleep(_RETRY)
        finally:
            with trio.move_on_after(_LAST_SECONDS, shield=True):
                await self.write()

    async def write(self) -> None:
        """Write what waits. Failures are logged."""
        if self._waiting is None:
            return
        waiting = known, cluster = self._waiting
        nodes = [known[name] for name in sorted(known)]
        try:
            await self._replacements.do(lambda: write_text(self._path, standby.dump(cluster, nodes)))
            self._error = ""
            if self._waiting is waiting:
                self._waiting = None
        except HtoolsError as error:
            if str(error) != self._error:
                self._error = str(error)
                _log.error("figures of standby nodes not written", error=self._error)
