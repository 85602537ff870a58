"""The parts of the daemon in groups. A group knows those before it."""

from dataclasses import dataclass, field

from htoolsd.api.decisions import Decisions
from htoolsd.claims.claim_writer import ClaimWriter
from htoolsd.claims.plan_claims import PlanClaims
from htoolsd.follow.reconciler import Reconciler
from htoolsd.history.history import History
from htoolsd.load.measured_load import MeasuredLoad
from htoolsd.metrics.capacity import CapacityCount
from htoolsd.metrics.forecast import CapacityForecast
from htoolsd.notify.outbox import Outbox
from htoolsd.plans.plans import Plans
from htoolsd.policies.coordinator import Policies
from htoolsd.recording import Recording
from htoolsd.socket.access import Access
from htoolsd.socket.server import Server
from htoolsd.store.state_copies import StateCopies
from htoolsd.store.worker import LedgerWorker
from htoolsd.sync.storage_polls import StoragePolls
from htoolsd.sync.sync import Sync
from htoolsd.witness.witness import Witness


@dataclass(frozen=True, slots=True)
class Following:
    """The parts that follow the cluster, and keep what has happened."""

    sync: Sync
    storage: StoragePolls
    history: History
    ledger: LedgerWorker
    reconciler: Reconciler
    capacity: CapacityCount
    forecast: CapacityForecast
    load: MeasuredLoad


@dataclass(frozen=True, slots=True)
class Deciding:
    """The parts that answer callers and decide."""

    claims: ClaimWriter
    witness: Witness
    recording: Recording
    decisions: Decisions
    access: Access
    server: Server


@dataclass(frozen=True, slots=True)
class Planning:
    """The parts that plan and act."""

    claims: PlanClaims
    copies: StateCopies
    plans: Plans
    policies: Policies


@dataclass(slots=True)
class ReloadStatus:
    """The last reload of the configuration file at ``path``.

    ``error`` is why it was rejected. ``waiting`` are changed keys that need a restart.
    """

    path: str | None = None
    error: str | None = None
    waiting: list[str] = field(default_factory=list)


@dataclass(slots=True)
class HttpStatus:
    """Why HTTP is not served although it should be."""

    error: str | None = None


@dataclass(frozen=True, slots=True)
class Outside:
    """States of the parts above the method ``status``, which they write."""

    outbox: Outbox
    reload: ReloadStatus = field(default_factory=ReloadStatus)
    http: HttpStatus = field(default_factory=HttpStatus)
