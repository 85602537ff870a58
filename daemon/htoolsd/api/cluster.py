"""The methods ``cluster``, ``storage`` and ``refresh``: the daemon's data about the cluster."""

from dataclasses import asdict
from typing import Annotated, Any

import orjson
import trio

from ganeti_htools import machine
from ganeti_htools.backends import ganeti_storage, load_profiles, standby
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.engine.capacity.storage import storage_of
from ganeti_htools.luxi import relayed
from ganeti_htools.luxi.queries import ClusterAnswers
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.units_in_use import units_in_use
from htoolsd.load.measured_load import MeasuredLoad
from htoolsd.plans.plans import Plans
from htoolsd.socket.methods import method
from htoolsd.socket.roles import Role
from htoolsd.sync.model import Model
from htoolsd.sync.sync import NotSyncedError, Sync
from htoolsd.threads import ROW_BYTES, encoded, run_by_size


def encode_answers(
    answers: ClusterAnswers, with_storage: Cluster | None = None
) -> dict[str, orjson.Fragment]:
    """Return luxid's answers in the form of :mod:`.relayed`, each part encoded as JSON.

    The storage units and inventories of a ``with_storage`` cluster are one more part.
    """
    parts = {name: relayed.to_json(fields, getattr(answers, name)) for name, fields in relayed.FIELDS.items()}
    for part in parts.values():
        part["data"] = encoded(part["data"])
    parts["info"] = answers.info
    if with_storage is not None:
        parts["storage"] = ganeti_storage.storage_to_json(with_storage)
    return {name: orjson.Fragment(orjson.dumps(part)) for name, part in parts.items()}


class ClusterMethods:
    """Methods about the model; they raise RefusalError. Encoded answers are kept until the model changes."""

    def __init__(self, sync: Sync, plans: Plans, load: MeasuredLoad) -> None:
        self._sync = sync
        self._plans = plans
        self._load = load
        self._encoded: tuple[Model | None, dict[str, orjson.Fragment]] = (None, {})
        self._encoding = trio.Lock()

    @method(
        "Returns the cluster: nodes, instances, groups and info as Ganeti answers them over LUXI, with nodes"
        " that are in use but do not report as offline; the age of each kind of data, in seconds, and whether"
        " it is too old; how often each table has changed; the nodes whose figures may be older than their"
        " instances (updating), so that their free amounts are computed, and why; and the last known figures"
        " of nodes that do not report, without their instances, in the text format (standby). Claims and"
        " promises count as reserved. With load, profiles of the measured load by instance: mean and"
        " 95th percentile (peak) by hour of the week, and last figures, in single precision and base64.",
        role=Role.READ,
    )
    async def cluster(
        self,
        fresh: Annotated[
            bool, "true to ask Ganeti, the nodes whose instances have changed, and the ledger first"
        ] = False,
        load: Annotated[bool, "true to have the profiles of measured load added"] = False,
    ) -> object:
        old = await self._sync.poll_configuration() if fresh else None
        why = await self._sync.poll_updates() if fresh and old is None else old
        if fresh:
            await self._plans.read_newest()
        model, known = self._sync.model, self._sync.model.cluster
        if model.answers is None:
            raise RefusalError(Refusal.CLUSTER, f"the cluster is not known yet{self._why()}")
        return {
            **await self._parts(model, model.answers),
            **self._state(),
            **({"late": True, "error": old} if old else {}),
            "standby": standby.dump(known, known.standby) if known and known.standby else None,
            "silent": model.silent,
            "updating": model.updating,
            "updating_error": why,
            "generations": model.generations,
            **(await self._profiles(model) if load else {}),
        }

    async def _profiles(self, model: Model) -> dict[str, Any]:
        if model.load_profiles is None:
            raise RefusalError(Refusal.LOAD, f"the load is not known: {self._load.why_unused}")
        return {"load": await machine.run_sync(load_profiles.to_json, model.load_profiles)}

    async def _parts(self, model: Model, answers: ClusterAnswers) -> dict[str, orjson.Fragment]:
        async with self._encoding:
            of, parts = self._encoded
            if of is None or of.answers is not answers or of.available is not model.available:
                size = (len(answers.nodes) + len(answers.instances)) * ROW_BYTES
                known = model.storage.generation or model.reservations.generation
                with_storage = model.available if known else None
                parts = await run_by_size(size, lambda: encode_answers(answers, with_storage))
                self._encoded = model, parts
            return parts

    @method(
        "Returns the storage: the units of nodes and the pools, with total and free space in MiB where known,"
        " the nodes that see each pool, and the age of each kind of data, in seconds.",
        role=Role.READ,
    )
    async def storage(self) -> object:
        cluster = self._sync.model.cluster
        if cluster is None:
            raise RefusalError(Refusal.CLUSTER, f"the cluster is not known yet{self._why()}")
        found = await self._sync.compute(lambda: asdict(storage_of(cluster, units_in_use(cluster))))
        return {**found, **self._state()}

    @method(
        "Asks Ganeti for all data again, and returns the age of each kind of data, in seconds.",
        role=Role.DECIDE,
    )
    async def refresh(self) -> object:
        try:
            await self._sync.poll_all()
        except NotSyncedError as error:
            raise RefusalError(Refusal.CLUSTER, str(error)) from None
        return self._state()

    def _state(self) -> dict[str, Any]:
        return {"ages": self._sync.ages(), "late": self._sync.late, "error": self._sync.luxi.error}

    def _why(self) -> str:
        return f": {self._sync.luxi.error}" if self._sync.luxi.error else ""
