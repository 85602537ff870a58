"""The parts of the daemon, made from the lowest to the highest. A part calls only those below it."""

import os

from ganeti_htools.luxi.queries import default_socket
from ganeti_htools.sources.ssconf import Ssconf
from htoolsd.api.cluster import ClusterMethods
from htoolsd.api.decisions import Decisions
from htoolsd.api.history import HistoryMethods
from htoolsd.api.inventory_tags import InventoryTags
from htoolsd.api.ledger import LedgerMethods
from htoolsd.api.load import LoadMethods
from htoolsd.api.metrics import MetricsMethods
from htoolsd.api.notify import NotifyMethods
from htoolsd.api.parts import Deciding, Following, Outside, Planning, ReloadStatus
from htoolsd.api.plans import PlanMethods
from htoolsd.api.policies import PolicyMethods
from htoolsd.api.report import ReportMethods
from htoolsd.api.status import StatusMethods
from htoolsd.api.witness import WitnessMethods
from htoolsd.claims.claim_writer import ClaimWriter
from htoolsd.claims.claims import Claims
from htoolsd.claims.plan_claims import PlanClaims
from htoolsd.config.ledger import file_url
from htoolsd.config.settings import Settings
from htoolsd.events import EventStream
from htoolsd.follow.reconciler import Reconciler
from htoolsd.history.history import History
from htoolsd.http.listener import HttpListener
from htoolsd.load.measured_load import MeasuredLoad
from htoolsd.metrics.capacity import CapacityCount
from htoolsd.metrics.forecast import CapacityForecast
from htoolsd.notify.notifier import Notifier
from htoolsd.notify.outbox import Outbox
from htoolsd.plans.plans import Plans
from htoolsd.policies.coordinator import Policies
from htoolsd.process.decision_data import DecisionData
from htoolsd.recording import Recording
from htoolsd.socket.access import Access
from htoolsd.socket.methods import Methods, methods_of
from htoolsd.socket.server import Server
from htoolsd.store.state_copies import StateCopies
from htoolsd.store.worker import LedgerWorker
from htoolsd.sync.storage_polls import StoragePolls
from htoolsd.sync.sync import Sync
from htoolsd.sync.this_node import ThisNode
from htoolsd.threads import CALL_SECONDS, Computations
from htoolsd.witness.witness import Witness


class Parts:
    """The parts of the daemon. None of them runs yet."""

    def __init__(self, settings: Settings, ssconf: Ssconf, reload: ReloadStatus) -> None:
        self._settings = settings
        self.events, claims = EventStream(), Claims(settings)
        self.following = self._follow(ssconf, claims)
        self.methods = Methods()
        self.deciding = self._decide(claims)
        self.computations = Computations(self.deciding.decisions, CALL_SECONDS)
        self.planning = self._plan()
        outside = Outside(Outbox(settings), reload)
        self._report(outside)
        self._take_calls()
        self.events.follow(
            claims,
            self.deciding.claims,
            self.deciding.recording,
            self.following.reconciler,
            self.planning.plans,
            self.following.history,
            outside.outbox,
            self.planning.policies,
        )

    def _file(self, name: str) -> str:
        return os.path.join(self._settings.now.state_dir, name)

    def _follow(self, ssconf: Ssconf, claims: Claims) -> Following:
        settings, config = self._settings, self._settings.now
        sync = Sync(
            config.luxi or default_socket(),
            ThisNode(ssconf),
            settings,
            self.events,
            claims,
            standby_file=self._file("standby.data"),
        )
        storage = StoragePolls(ssconf.configuration, settings, sync)
        history = History(self._file("history.sqlite"), settings)
        ledger = LedgerWorker(config.ledger or file_url(config.state_dir))
        reconciler = Reconciler(sync, ledger, settings)
        capacity, forecast = CapacityCount(sync), CapacityForecast(sync, history)
        load = MeasuredLoad(self._file("load.json"), settings, sync)
        return Following(sync, storage, history, ledger, reconciler, capacity, forecast, load)

    def _decide(self, claims: Claims) -> Deciding:
        settings, below = self._settings, self.following
        writer = ClaimWriter(claims, below.ledger, below.reconciler, below.sync, settings)
        data = DecisionData(below.sync, below.storage, below.load)
        witness = Witness(settings, self._file("witness"))
        decisions = Decisions(settings, data, self.events, writer, witness)
        recording = Recording(self._file("recording"), settings, decisions)
        access = Access(settings)
        return Deciding(
            writer, witness, recording, decisions, access, Server(self.methods, settings, access, self.events)
        )

    def _plan(self) -> Planning:
        settings, below = self._settings, self.following
        claims = PlanClaims(below.sync, below.ledger, below.reconciler, self.deciding.claims)
        copies = StateCopies(below.ledger, below.sync, settings.now.state_dir)
        plans = Plans(self._file("plans"), below.sync, self.events, settings, claims, copies)
        path = self._file("policies.json")
        return Planning(
            claims,
            copies,
            plans,
            Policies(
                path, below.sync, plans, settings, self.events, copies=copies, present_load=below.load.present
            ),
        )

    def _report(self, outside: Outside) -> None:
        settings, below = self._settings, self.following
        self._status = StatusMethods(settings, below, self.deciding, self.planning, outside)
        self._metrics = MetricsMethods(self._status, below.sync)
        self._page = ReportMethods(self._status, below.history, below.sync)
        self.notifier = Notifier(
            self._file("notified.json"), settings, outside.outbox, self._status, below.sync
        )
        self.http = HttpListener(
            settings, self.deciding.access, self._status, self._metrics, self._page, outside.http
        )

    def _take_calls(self) -> None:
        """Add the methods for callers."""
        settings, below, server = self._settings, self.following, self.deciding.server
        sync, ledger, reconciler = below.sync, below.ledger, below.reconciler
        plans, policies = self.planning.plans, self.planning.policies
        tags = InventoryTags(sync, reconciler)
        subjects = (
            self.deciding.decisions,
            ClusterMethods(sync, plans, below.load),
            PlanMethods(plans, sync, settings, policies, server),
            PolicyMethods(policies, sync, self.computations),
            HistoryMethods(below.history, sync, self.computations),
            LedgerMethods(ledger, sync, reconciler, self.deciding.claims.claims, tags, settings),
            LoadMethods(below.load, sync),
            self._status,
            self._metrics,
            self._page,
            NotifyMethods(self.notifier),
            WitnessMethods(self.deciding.witness),
        )
        self.methods.add(*methods_of(*subjects))
