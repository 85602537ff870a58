"""The methods ``load`` and ``sizes``: the measured load."""

from typing import Annotated, Any

from ganeti_htools import machine
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning.view import is_called
from htoolsd.load.measured_load import MeasuredLoad
from htoolsd.load.profiles import KnownLoad
from htoolsd.load.report import instances_to_json, sizes_to_json
from htoolsd.socket.methods import Name, method
from htoolsd.socket.roles import Role
from htoolsd.sync.sync import Sync
from htoolsd.threads import encoded


class LoadMethods:
    """Methods about the measured load. They raise RefusalError."""

    def __init__(self, load: MeasuredLoad, sync: Sync) -> None:
        self._load = load
        self._sync = sync

    @method(
        "Returns the state of the measured load, and the load of the nodes, hottest first: now, the 95th"
        " percentile and the maximum over the hours of the week (the first is Monday's at 0:00). For a node"
        " also that of its instances, for an instance only its own.",
        role=Role.READ,
    )
    async def load(
        self, name: Annotated[Name | None, "a node or an instance; its name may be cut off at a dot"] = None
    ) -> object:
        cluster, known = await self._known()

        def work() -> dict[str, Any]:
            instances = instances_to_json(cluster, known.profiles, self._load.sample)
            if name is None:
                return {"nodes": known.nodes, "instances": []}
            here = [node for node in known.nodes if is_called(node["name"], name)]
            names = {node["name"] for node in here}
            one = [each for each in instances if is_called(each["name"], name)]
            return {"nodes": here, "instances": one or [each for each in instances if each["node"] in names]}

        found = await machine.run_sync(work)
        if name is not None and not any(found.values()):
            raise RefusalError(Refusal.ARGUMENTS, f"there is no node or measured instance {name}")
        return {**await self._load.status(), **found}

    @method(
        "Lists instances that never use what they are assigned, and those whose CPU is at its limit, with the"
        " highest figures seen and what fits. Nothing is changed.",
        role=Role.READ,
    )
    async def sizes(self) -> object:
        cluster, known = await self._known()
        return await machine.run_sync(lambda: encoded([*sizes_to_json(cluster, known.profiles)]))

    async def _known(self) -> tuple[Cluster, KnownLoad]:
        cluster = self._sync.led_cluster
        if cluster is None:
            raise RefusalError(Refusal.CLUSTER, "the cluster is not known yet; ask again")
        if not self._load.on:
            raise RefusalError(Refusal.LOAD, "load is not measured; [load] in the configuration is off")
        return cluster, await self._load.known(cluster)
