"""What the daemon consists of, and who gets what."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ganeti_htools.luxi.queries import default_socket
from ganeti_htools.sources.ssconf import Ssconf
from htoolsd.api.candidates import CandidateMethods
from htoolsd.api.cluster import ClusterMethods
from htoolsd.api.decisions import Decisions
from htoolsd.api.history import HistoryMethods
from htoolsd.api.inventory_tags import InventoryTags
from htoolsd.api.ledger import LedgerMethods
from htoolsd.api.metrics import MetricsMethods
from htoolsd.api.notify import NotifyMethods
from htoolsd.api.plans import PlanMethods
from htoolsd.api.policies import PolicyMethods
from htoolsd.api.reload_status import ReloadStatus
from htoolsd.api.report import ReportMethods
from htoolsd.api.status import StatusMethods
from htoolsd.claims.claim_writer import ClaimWriter
from htoolsd.claims.claims import Claims
from htoolsd.claims.plan_claims import PlanClaims
from htoolsd.config.ledger import file_url
from htoolsd.config.settings import Settings
from htoolsd.follow.reconciler import Reconciler
from htoolsd.follow.reserved import configured_reserves
from htoolsd.history import entries
from htoolsd.history.history import History
from htoolsd.http.listener import HttpListener
from htoolsd.metrics.capacity import CapacityCount
from htoolsd.notify.notifier import Notifier
from htoolsd.plans.plan import Plan
from htoolsd.plans.plans import Plans
from htoolsd.policies.coordinator import Policies
from htoolsd.policies.verdict import PolicyDecision
from htoolsd.process.mastership import ThisNode, known_cluster
from htoolsd.process.service_manager import notify
from htoolsd.report.report import ReportPage
from htoolsd.socket.access import Access
from htoolsd.socket.methods import Args, Methods, methods_of
from htoolsd.socket.peer import caller, describe_caller
from htoolsd.socket.roles import Role
from htoolsd.socket.server import Server
from htoolsd.store.state_copies import StateCopies
from htoolsd.store.worker import LedgerWorker
from htoolsd.sync.sync import Sync
from htoolsd.threads import LONGEST, Computations


class Parts:
    """The parts of the daemon, from the lowest to the highest. None of them runs yet."""

    def __init__(self, settings: Settings, ssconf: Ssconf, reload: ReloadStatus) -> None:
        self.settings = settings
        self.node = ThisNode(ssconf)
        self._follow_the_cluster(settings, ssconf)
        self._decide(settings)
        self._plan(settings)
        self._report(settings, reload)
        self._methods.add(*methods_of(*self._subjects()))

    def _file(self, name: str) -> str:
        return os.path.join(self.settings.now.state_dir, name)

    def _follow_the_cluster(self, settings: Settings, ssconf: Ssconf) -> None:
        config = settings.now
        self.sync = Sync(
            config.luxi or default_socket(),
            self.node.leads,
            settings,
            show_status=lambda summary: notify(f"STATUS={summary}"),
            configuration_file=ssconf.configuration,
            standby_file=self._file("standby.data"),
        )
        self.history = History(self._file("history.sqlite"), settings)
        self.ledger = LedgerWorker(config.ledger or file_url(config.state_dir))
        self.reconciler = Reconciler(self.sync, self.ledger, settings)
        self.capacity = CapacityCount(lambda: self.sync.model.available if self.sync.master else None)

    def _decide(self, settings: Settings) -> None:
        sync = self.sync
        self.claims = Claims(settings, lambda: sync.model.cluster is not None)
        sync.on_pending_work(self.claims.needs_queue, self.claims.check)
        self.claim_writer = ClaimWriter(self.claims, self.ledger, self.reconciler, self.own_cluster, settings)
        self.decisions = Decisions(
            settings,
            lambda: known_cluster(sync, self.node),
            sync.storage.request_units,
            sync.poll_configuration,
            self.history.note,
            self.claim_writer,
        )
        self.computations = Computations(self.decisions.idle, LONGEST)
        self._methods = Methods()
        self.access = Access(settings)
        self.server = Server(self._methods, settings, self.access, self._record_call)

    def _plan(self, settings: Settings) -> None:
        sync, ledger = self.sync, self.ledger
        self.plan_claims = PlanClaims(sync, ledger, self.reconciler, self.claims, self.claim_writer.promise)
        state_dir = os.path.abspath(settings.now.state_dir)
        self.copies = StateCopies(ledger, lambda: f"{self.node.ssconf.name}:{state_dir}", self.own_cluster)
        self.plans = Plans(self._file("plans"), sync, self._note_plan, self.plan_claims, self.copies.put)
        self.policies = Policies(
            self._file("policies.json"),
            sync,
            self.plans,
            settings,
            self,
            copies=self.copies,
        )

    def _report(self, settings: Settings, reload: ReloadStatus) -> None:
        self.notifier = Notifier(self._file("notified.json"), settings, self._look, self.cluster_name)
        self.status = StatusMethods(
            settings.now.socket,
            settings.now.state_dir,
            self.node,
            self.server,
            self.sync,
            self.decisions,
            self.claims,
            self.plans,
            self.policies,
            self.history,
            self.ledger,
            self.reconciler,
            reload,
            self.capacity,
            self.notifier,
            lambda: self.http.status(),
        )
        self.metrics = MetricsMethods(self.status.report, self.sync)
        self.page = ReportPage(
            self.status.report, self.history, lambda: self.sync.model.available, self.cluster_name
        )
        self.http = HttpListener(settings, self.access, self.metrics.text, self.status.report, self.page.html)

    def _subjects(self) -> Iterator[object]:
        """Yield the objects with methods for callers."""
        sync, ledger, reconciler = self.sync, self.ledger, self.reconciler
        yield self.decisions
        yield ClusterMethods(sync, self.plan_claims.catch_up)
        yield PlanMethods(
            self.plans,
            sync,
            self.settings,
            self.policies.remake_proposal,
            lambda: self.access.roles.of(caller.get()) is Role.ACT,
            self.server.waiting,
        )
        yield PolicyMethods(self.policies, sync, self.computations)
        yield HistoryMethods(self.history, sync, self.computations)
        yield LedgerMethods(
            ledger,
            self.cluster_name,
            sync.obstacle,
            reconciler.trigger,
            self.claims.cancel,
            InventoryTags(sync, reconciler.reconcile).write,
            self.settings,
            lambda: configured_reserves(reconciler.synced.desired) if reconciler.synced else {},
        )
        yield CandidateMethods(ledger, reconciler)
        yield from (self.status, self.metrics, ReportMethods(self.page), NotifyMethods(self.notifier))

    def cluster_name(self) -> str | None:
        """Return the cluster's name, None while it is not known."""
        return self.sync.model.name or self.node.ssconf.cluster()

    def own_cluster(self) -> str | None:
        """Return the cluster's name, None if another node or daemon acts on it."""
        other = self.sync.obstacle() or self.node.ssconf.is_other_node_master()
        return None if other else self.cluster_name()

    def _record_call(self, method: str, args: Args) -> None:
        self.history.note(entries.call(time.time(), method, args, describe_caller()))

    def _note(self, entry: entries.HistoryEntry) -> None:
        self.history.note(entry)
        self.notifier.note(entry)

    def note_decision(self, decision: PolicyDecision) -> None:
        """Note a decision of a policy."""
        self._note(entries.policy(decision.time, asdict(decision)))

    def _note_plan(self, plan: Plan) -> None:
        self._note(entries.plan(time.time(), plan.to_json()))
        self.policies.ended(plan)

    async def _look(self) -> tuple[Sequence[Mapping[str, Any]], bool]:
        report = await self.status.report()
        cluster = report["cluster"]
        complete = cluster["master"] and cluster["nodes"] is not None and report["groups"] is not None
        return report["attention"], bool(complete)
