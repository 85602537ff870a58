"""The method about allocation candidates."""

from typing import TYPE_CHECKING, Annotated

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.api import ledger_names as named
from htoolsd.api.ledger import allocations_to_json, do
from htoolsd.api.ledger_arguments import CONSUMER, Amounts
from htoolsd.follow.candidates import allocation_candidates, pools_of_nodes
from htoolsd.follow.reconciler import Reconciler
from htoolsd.socket.methods import Name, method
from htoolsd.socket.roles import Role
from htoolsd.store.worker import LedgerWorker

if TYPE_CHECKING:
    from htoolsd.store.ledger import Ledger


class CandidateMethods:
    """Methods about candidates. They raise RefusalError."""

    def __init__(self, worker: LedgerWorker, reconciler: Reconciler) -> None:
        self._worker = worker
        self._reconciler = reconciler

    @method(
        "Lists the nodes and pools in which amounts are free. First comes the one that leaves the largest"
        " share of its scarcest class (left). A candidate is a node that is online, with a pool that it sees"
        " if pool space is wanted, or a pool. Its allocations can be claimed, with the generations.",
        role=Role.READ,
    )
    async def candidates(
        self,
        resources: Amounts,
        group: Annotated[Name | None, "only nodes of this node group, and pools that they see"] = None,
        consumer: Annotated[Name | None, f"count what it has as free: {CONSUMER}"] = None,
    ) -> object:
        synced = self._reconciler.synced
        if synced is None:
            raise RefusalError(Refusal.CLUSTER, "the cluster is not known yet; ask again")
        desired = synced.desired

        def work(ledger: "Ledger") -> list[dict[str, object]]:
            nodes = pools_of_nodes(desired, group)
            cluster = desired.resources.cluster
            uuid = None if consumer is None else named.new_consumer(consumer, cluster)[0]
            now = ledger.refresh(synced.snapshot)
            return [
                {"left": each.shares[0], "allocations": allocations_to_json(each.allocations, now)}
                for each in allocation_candidates(now, nodes, resources, uuid)
            ]

        return await do(self._worker, work)
