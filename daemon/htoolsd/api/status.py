"""The method ``status``: the daemon's report about itself."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import trio

from ganeti_htools import machine
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning.groups.health import group_health
from ganeti_htools.planning.maintenance.status import nodes_in_maintenance, rolls
from ganeti_htools.program_paths import hidden_programs, typed
from ganeti_htools.version import VERSION, build
from htoolsd import tasks
from htoolsd.api.attention import RowsToWatch, attention, rows_to_watch
from htoolsd.api.parts import Deciding, Following, Outside, Planning
from htoolsd.config.settings import Settings
from htoolsd.damaged_files import files_set_aside
from htoolsd.marks import fallbacks
from htoolsd.socket.methods import method
from htoolsd.socket.roles import Role
from htoolsd.sync.sync import Sync
from htoolsd.threads import ROW_BYTES, effect, run_by_size

_PATIENCE = 1.0  # seconds that an answer waits for the health of the node groups, and for the disk


def resident_mib() -> float:
    """Return the memory of this process in RAM, MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), 1)


class ClusterHealth(NamedTuple):
    """The health of a cluster: each group, nodes in maintenance and rolls as JSON, and the ``watched`` rows.

    The latter may need attention. Groups and watched rows are None while they are unknown.
    """

    groups: list[dict[str, Any]] | None = None
    maintenance: Sequence[Mapping[str, Any]] = ()
    rolls: Sequence[Mapping[str, Any]] = ()
    watched: RowsToWatch | None = None


class HealthCache:
    """The health of the cluster, computed once per cluster and only when asked for."""

    def __init__(self, sync: Sync) -> None:
        self._sync = sync
        self._cluster: Cluster | None = None
        self._health = ClusterHealth()

    async def health(self) -> ClusterHealth:
        """Return the health of the present cluster, or the last known one where computing takes long."""
        cluster = self._sync.model.cluster
        if cluster is not None and cluster is not self._cluster:
            self._cluster, size = cluster, (len(cluster.nodes) + len(cluster.instances)) * ROW_BYTES

            def compute() -> None:
                found = ClusterHealth(
                    group_health(cluster),
                    nodes_in_maintenance(cluster),
                    rolls(cluster),
                    rows_to_watch(cluster),
                )
                if cluster is self._cluster:  # otherwise a newer one has begun, and may have ended
                    self._health = found

            with trio.move_on_after(_PATIENCE):
                await run_by_size(size, compute, abandon=True)
        return self._health


class StatusMethods:
    """The method ``status``. Times are seconds of the epoch unless their name says otherwise."""

    def __init__(
        self,
        settings: Settings,
        following: Following,
        deciding: Deciding,
        planning: Planning,
        outside: Outside,
    ) -> None:
        self._settings = settings
        self._following = following
        self._deciding = deciding
        self._planning = planning
        self._outside = outside
        self._set_aside: list[str] = []
        self._health = HealthCache(following.sync)
        self._build, self._paths = build(), hidden_programs()
        self._started, self._clock = machine.now(), machine.steady()

    @method(
        "Shows the state of the daemon, counts of its work since its start, and what needs attention: worst"
        " first, each with the next command.",
        role=Role.READ,
    )
    async def status(
        self, capacity: Annotated[bool, "true to have the capacity of the groups counted"] = False
    ) -> object:
        return await self.report(capacity)

    async def report(self, count: bool = False) -> dict[str, Any]:
        """Return the answer to the method. With ``count``, the capacity is counted if that is due."""
        following, deciding, plans = self._following, self._deciding, self._planning.plans
        sync, ledger, socket = following.sync, following.ledger, self._settings.now.socket
        if count:
            await following.capacity.request()
        health = await self._health.health()
        status = {
            "version": VERSION,
            "build": self._build,
            "pid": os.getpid(),
            "started": self._started,
            "uptime_s": round(machine.steady() - self._clock, 3),
            "socket": socket,
            "connections": deciding.server.connections,
            "luxi": asdict(sync.luxi),
            "cluster": {**sync.status(), "storage": following.storage.status(), **sync.node.status()},
            "maintenance": health.maintenance,
            "rolls": health.rolls,
            "groups": health.groups,
            "decisions": deciding.decisions.status() | fallbacks(socket),
            "witness": deciding.witness.status(),
            "recording": deciding.recording.status(),
            "claims": deciding.claims.claims.status(),
            "plans": plans.status(),
            "planning": plans.turn.status(),
            "plan_jobs": plans.jobs(),
            "policies": self._planning.policies.health(),
            "history": following.history.status(),
            "ledger": await ledger.status() | following.reconciler.status(),
            "capacity": following.capacity.status(),
            "forecast": following.forecast.status(),
            "reload": asdict(self._outside.reload),
            "notify": self._outside.outbox.status(),
            "defects": tasks.status(),
            "http": {"listen": self._settings.now.http.listen, **asdict(self._outside.http)},
            "set_aside": await self._files_set_aside(),
            "memory_mib": resident_mib(),
        }
        if following.load.on:
            status["load"] = await following.load.status()
        found = attention(status, health.watched, plans.all, machine.now())
        lines = [each._replace(command=typed(each.command, self._paths)) for each in found]
        return {"attention": [each.to_json() for each in lines], **status}

    async def _files_set_aside(self) -> list[str]:
        """Return the damaged files that were set aside; the last known ones if the disk takes long."""
        with trio.move_on_after(_PATIENCE), suppress(OSError):
            self._set_aside = await effect(files_set_aside, self._settings.now.state_dir, abandon=True)
        return self._set_aside
