"""The cluster that decisions know."""

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.deciding.decision import KnownCluster
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.storage import DesiredUnit
from htoolsd.load.measured_load import MeasuredLoad
from htoolsd.sync.model import LIVE, STORAGE
from htoolsd.sync.node_storage import with_current_storage
from htoolsd.sync.storage_polls import StoragePolls
from htoolsd.sync.sync import Sync


class DecisionData:
    """The daemon's data about the cluster, as decisions use it."""

    def __init__(self, sync: Sync, storage: StoragePolls, load: MeasuredLoad) -> None:
        self._sync = sync
        self._storage = storage
        self._load = load

    def now(self) -> tuple[KnownCluster | None, dict[str, float]]:
        """Return the cluster, and the age of each kind of data. Raises RefusalError.

        Only the master decides. A node that has just become the master may not have noticed yet, so the files
        are read again.
        """
        sync = self._sync
        if sync.master is False and sync.node.ssconf.is_other_node_master():
            raise RefusalError(Refusal.CLUSTER, "this is not the master node")
        ages, model = sync.ages(), sync.model
        plain, storage = model.without_storage, model.storage
        if model.cluster is None or plain is None:
            return None, ages

        def naming(units: frozenset[DesiredUnit]) -> Cluster:
            return with_current_storage(plain, storage, units)

        known = KnownCluster(
            model.cluster,
            ages[LIVE],
            ages.get(STORAGE, 0.0),
            naming,
            self._storage.incomplete,
            model.reservations.promised,
            model.reservations.claims,
            loads=self._load.of_decisions,
        )
        return known, ages

    async def newest(self) -> KnownCluster | None:
        """Return the cluster after Ganeti was asked for its configuration. Raises RefusalError."""
        await self._sync.poll_configuration()
        return self.now()[0]

    def request_units(self) -> None:
        """Have storage units polled that are not the default ones."""
        self._storage.request_units()
