"""What plans claim for their moves: from before a set of jobs is submitted until they have ended.

A plan claims under a name of its own. Its claim survives the daemon; it is released once no job of the plan
is under way any more, at the latest by the follower.
"""

from collections.abc import Iterator, Sequence

import structlog
import trio

from ganeti_htools.execution.jobs import Job
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.moves import NamedStep
from htoolsd.claims.claims import Claims
from htoolsd.claims.follower import Follower
from htoolsd.ledger.following import Agreed, of_classes
from htoolsd.ledger.identities import consumer_uuid, plan_name
from htoolsd.ledger.kept import claimed_nodes, left_of
from htoolsd.ledger.moves import Stations, needs_of
from htoolsd.ledger.records import Allocations, ConflictError, Consumer, LedgerError, UnavailableError
from htoolsd.ledger.worker import Worker
from htoolsd.sync.following import Sync
from htoolsd.sync.kept import Kept, with_kept

_log = structlog.get_logger()


class PlanClaims:
    """The claims of plans, by the plans' ids, and what others have claimed.

    ``claims`` are those of decisions, which may not stand in the ledger yet.
    """

    def __init__(self, sync: Sync, ledger: Worker, follower: Follower, claims: Claims) -> None:
        self._sync = sync
        self._ledger = ledger
        self._follower = follower
        self._claims = claims
        self._agreed: Agreed | None = None
        self._error: str | None = None

    async def look(self) -> Cluster | None:
        """The cluster of the model, with all that anybody has claimed left free."""
        await self._follower.again()
        model, seen = self._sync.model, self._follower.agreed
        self._agreed = seen
        if model.told is None or seen is None:
            return model.cluster
        told = model.told
        left = await trio.to_thread.run_sync(lambda: left_of(*seen, promised=True))
        return with_kept(told, Kept(*left))

    def claimed(self) -> set[str]:
        """The nodes of which somebody has claimed something."""
        seen = self._follower.agreed
        promised = {
            node for each in self._claims.promises() for node in (each.row.pnode, each.row.snode) if node
        }
        return promised | (claimed_nodes(*seen) if seen is not None else set())

    async def claim(self, plan: str, jobs: Sequence[Job]) -> str | None:
        """Claim what the next jobs of a plan need, instead of what it had, on what was seen at the last look.

        If that has passed, or they change a node of which others have claimed something, that is told: then
        they have to be looked at once more. There may be less than they need where rules that are not strict
        allow it. Where the ledger cannot be used a plan goes on without.
        """
        taken = {node for job in jobs for node in job.nodes} & self.claimed()
        if taken:
            return f"something of {', '.join(sorted(taken))} is claimed"
        seen = self._agreed
        if seen is None or not self._claims.active:
            return None
        wanted = _wanted(jobs, seen)
        generations = {uuid: seen.contents.providers[uuid].generation for uuid in wanted}
        consumer = _consumer(plan, seen.said.places.cluster)
        try:
            if wanted:
                await self._ledger.do(lambda ledger: ledger.claim(consumer, wanted, generations, beyond=True))
                self._follower.heed()
        except ConflictError as error:
            return str(error)
        except LedgerError as error:
            self._failed(plan, error)
        return None

    async def release(self, plan: str) -> None:
        """A plan needs nothing at the moment."""
        cluster = self._sync.model.name
        if cluster is None:
            return
        consumer = _consumer(plan, cluster)
        try:
            if await self._ledger.do(lambda ledger: ledger.release(consumer.uuid)):
                self._follower.heed()
        except LedgerError as error:
            self._failed(consumer.name, error)

    def _failed(self, plan: str, error: LedgerError) -> None:
        if not isinstance(error, UnavailableError):  # those are logged
            _log.warning("claims of plans are not in the ledger", plan=plan, error=str(error))


def _consumer(plan: str, cluster: str) -> Consumer:
    """A plan as a consumer."""
    name = plan_name(cluster, plan)
    return Consumer(consumer_uuid(name), name, "plan")


def _wanted(jobs: Sequence[Job], seen: Agreed) -> Allocations:
    """What jobs need of what there is."""
    rows = {row.name: row for row in seen.said.cluster.instances}
    classes = {uuid: each.keys() for uuid, each in seen.contents.inventories.items()}
    return of_classes(needs_of(ways_of(jobs), rows, seen.said.places), classes)


def ways_of(jobs: Sequence[Job]) -> Iterator[tuple[str, Stations]]:
    """For each job that moves an instance, where that is on its way: primary and secondary nodes."""
    for step in (job.step for job in jobs if job.step is not None):
        if isinstance(step, NamedStep):
            parts = tuple((operation, step.node) for operation in step.kind.operations)
        else:
            parts = step.parts
        primary, secondary = (*step.was, None)[:2]
        stations = []
        for operation, node in parts:
            primary, secondary = operation.nodes(primary, secondary, node)
            stations.append((primary, secondary))
        yield step.instance, stations
