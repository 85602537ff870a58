"""Claims of plans for their moves, from before a jobset is submitted until its jobs have ended.

A plan claims under a name of its own. Its claim survives the daemon. The claim is released once no job of the
plan runs any more, or a few seconds after the next daemon has read its plans.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import structlog
import trio

from ganeti_htools.deciding.promises import Promise
from ganeti_htools.execution.jobs import Job
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.moves import NamedMove
from htoolsd.claims.claim_writer import ClaimWriter
from htoolsd.follow.desired_state import DesiredState, SyncedState
from htoolsd.follow.diff import of_known_classes
from htoolsd.follow.reconciler import Reconciler
from htoolsd.follow.reserved import claims_on_nodes
from htoolsd.follow.resources import instance_use, largest_use
from htoolsd.store.records import (
    Allocations,
    ConflictError,
    Consumer,
    LedgerError,
    UnavailableError,
    consumer_uuid,
    plan_name,
)
from htoolsd.store.worker import LedgerWorker
from htoolsd.sync.sync import Sync

_log = structlog.get_logger()

_PATIENCE = 1.0  # seconds that a new plan waits for the newest claims


class PlanClaims:
    """The claims of plans, by the plans' ids, and the claims of others that plans must respect.

    ``writer`` has the claims of decisions, which may not be in the ledger yet.
    """

    def __init__(self, sync: Sync, ledger: LedgerWorker, reconciler: Reconciler, writer: ClaimWriter) -> None:
        self._sync = sync
        self._ledger = ledger
        self._reconciler = reconciler
        self._writer = writer

    async def read_newest(self) -> None:
        """Have the model count the newest claims, unless the ledger takes long."""
        with trio.move_on_after(_PATIENCE):
            await self._reconciler.reconcile()

    async def available_cluster(self) -> tuple[Cluster | None, SyncedState | None]:
        """Return the model's cluster, with everything left free that is claimed now, and the ledger."""
        await self._reconciler.reconcile()
        return self._sync.model.available, self._reconciler.synced

    def claims_on_nodes(self) -> dict[str, set[str]]:
        """Return the names of the claims on each node that has any."""
        found = defaultdict[str, set[str]](set)
        for promise in self._writer.claims.promises():
            for node in filter(None, (promise.row.pnode, promise.row.snode)):
                found[node].add(promise.name)
        synced = self._reconciler.synced
        if synced is not None:
            for node, names in claims_on_nodes(synced, lambda each: each.is_claim).items():
                found[node].update(names)
        return found

    async def claim(self, plan: str, jobs: Sequence[Job], synced: SyncedState | None) -> str | None:
        """Claim what the next jobs of a plan need, on the state that its review saw; return None on success.

        The claim replaces the plan's earlier claim. It is not made, and the reason is returned, if the state
        has changed or others have claimed resources of the jobs' nodes. Then the jobs need another review.
        The claim may exceed the capacity, as rules that are not strict allow. Without a usable ledger the
        plan goes on.
        """
        claimed = {node for job in jobs for node in job.nodes} & self.claims_on_nodes().keys()
        if claimed:
            return f"others have claimed resources of {', '.join(sorted(claimed))}"
        if synced is None or not self._writer.active:
            return None
        wanted = _job_needs(jobs, synced)
        generations = {uuid: synced.snapshot.providers[uuid].generation for uuid in wanted}
        consumer = _consumer(plan, synced.desired.resources.cluster)
        try:
            if wanted:
                await self._ledger.do(
                    lambda ledger: ledger.claim(consumer, wanted, generations, over_capacity=True),
                    probe=False,
                )
                self._reconciler.trigger()
        except ConflictError as error:
            return str(error)
        except LedgerError as error:
            _log_error(plan, error)
        return None

    def keep_room(self, row: Instance) -> None:
        """Claim the room that a plan has made for a new instance, on its nodes."""
        if self._writer.active:
            self._writer.promise(Promise(row, new=True))

    async def release(self, plan: str) -> None:
        """Release what a plan has claimed."""
        cluster = self._sync.model.name
        if cluster is None:
            return
        consumer = _consumer(plan, cluster)
        try:
            if await self._ledger.do(lambda ledger: ledger.release(consumer), probe=False):
                self._reconciler.trigger()
        except LedgerError as error:
            _log_error(plan, error)

    async def release_others(self, plans: Collection[str]) -> None:
        """Release what plans of this cluster have claimed, other than these plans."""
        synced = self._reconciler.synced
        if synced is None or not self._sync.master or self._sync.obstacle() is not None:
            return
        own = plan_name(synced.desired.resources.cluster, "")
        ended = [
            each
            for each in synced.snapshot.consumers.values()
            if each.kind == "plan" and each.name.startswith(own) and each.name.removeprefix(own) not in plans
        ]
        if not ended:
            return
        try:
            await self._ledger.do(lambda ledger: ledger.release_unless_renewed(ended), probe=False)
            self._reconciler.trigger()
        except LedgerError as error:
            _log_error(ended[0].name, error)


def move_needs(moves: Iterable[NamedMove], desired: DesiredState) -> defaultdict[str, Counter[str]]:
    """Return what moves need of providers beyond the present use, after any of their operations.

    The moves may run at the same time. Instances that are not in the cluster need nothing.
    """
    needs = defaultdict[str, Counter[str]](Counter)
    for move in moves:
        if (instance := desired.instances.get(move.instance)) is None:
            continue
        uses = []
        primary, secondary = (*move.was, None)[:2]
        for operation, node in move.parts:
            primary, secondary = operation.nodes(primary, secondary, node)
            row = replace(instance.row, pnode=primary, snode=secondary)
            uses.append(instance_use(row, desired.resources))
        for provider, amounts in largest_use(uses).items():
            needs[provider] += amounts - Counter(instance.entry.allocations.get(provider, {}))
    return needs


def _consumer(plan: str, cluster: str) -> Consumer:
    name = plan_name(cluster, plan)
    return Consumer(consumer_uuid(name), name, "plan")


def _job_needs(jobs: Sequence[Job], synced: SyncedState) -> Allocations:
    """Return what jobs need of resources that have inventories, with the room that they make."""
    needs = move_needs((job.step for job in jobs if job.step is not None), synced.desired)
    for row in {job.room.name: job.room for job in jobs if job.room is not None}.values():
        for uuid, amounts in instance_use(row, synced.desired.resources).items():
            needs[uuid].update(amounts)
    return of_known_classes(needs, synced.snapshot.inventories)


def _log_error(plan: str, error: LedgerError) -> None:
    if not isinstance(error, UnavailableError):  # the worker logs those
        _log.warning("claim of the plan not written to the ledger", plan=plan, error=str(error))
