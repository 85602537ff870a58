"""The role of this node: master or not, from Ganeti's ssconf files."""

from collections.abc import Awaitable, Callable

import structlog
import trio

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.planning.decision import Known
from ganeti_htools.sources.ssconf import Ssconf, this_node
from htoolsd.sync.model import LIVE, STORAGE
from htoolsd.sync.node_storage import with_current_storage
from htoolsd.sync.sync import Sync

_log = structlog.get_logger()

EXIT_NOT_MASTER = 11  # the exit status of Ganeti's own master daemons on other nodes (ganeti-luxid(8))


def role(ssconf: Ssconf) -> Callable[[], Awaitable[bool | None]]:
    """Return a function that returns whether this is the master node.

    While the files cannot be read, it returns the last known role; None at first.
    """
    known_role: bool | None = None
    complaint = ""

    def look() -> bool:
        nonlocal ssconf
        if not ssconf.leads():  # at boot, the first name may be wrong because there was no resolver yet
            ssconf = this_node(ssconf.directory)
        return ssconf.leads()

    async def leads() -> bool | None:
        nonlocal known_role, complaint
        try:
            known_role, why = await trio.to_thread.run_sync(look), ""
        except OSError as error:
            why = f"{error.filename}: {error.strerror}"
        if why and why != complaint:
            _log.warning("master node cannot be determined", error=why)
        complaint = why
        return known_role

    return leads


def known_cluster(sync: Sync, ssconf: Ssconf) -> tuple[Known | None, dict[str, float]]:
    """Return the cluster for decisions, and the age of each kind of data. Raises RefusalError.

    Only the master decides. A node that has just become the master may not have noticed yet, so the files
    are read again.
    """
    if sync.master is False and ssconf.is_other_node_master():
        raise RefusalError(Refusal.CLUSTER, "this is not the master node")
    ages, model = sync.ages(), sync.model
    plain, storage = model.without_storage, model.storage
    if model.cluster is None or plain is None:
        return None, ages

    def naming(units: frozenset[DesiredUnit]) -> Cluster:
        return with_current_storage(plain, storage, units)

    known = Known(
        model.cluster,
        ages[LIVE],
        ages.get(STORAGE, 0.0),
        naming,
        sync.storage.incomplete,
        model.reservations.promised,
        model.reservations.claims,
    )
    return known, ages
