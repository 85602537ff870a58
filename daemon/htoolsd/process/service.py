"""``htoolsd``: the daemon as a process."""

import gc
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from typing import Any

import structlog
import trio

from ganeti_htools import streams
from ganeti_htools.luxi.queries import default_socket
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.nursery import open_nursery
from ganeti_htools.sources.ssconf import Ssconf, this_node
from ganeti_htools.version import VERSION
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
from htoolsd.claims.reconciler import Reconciler
from htoolsd.config.config import Config, argument_parser, exposes_password, load
from htoolsd.config.ledger import file_url
from htoolsd.config.settings import Settings
from htoolsd.disposal import dispose
from htoolsd.history import entries
from htoolsd.history.history import History
from htoolsd.http.listener import HttpListener
from htoolsd.ledger.reservations import configured_reserves
from htoolsd.ledger.state_copies import StateCopies
from htoolsd.ledger.worker import LedgerWorker
from htoolsd.metrics.capacity import CapacityCount
from htoolsd.notify.notifier import Notifier
from htoolsd.plans.plan import Plan
from htoolsd.plans.plans import Plans
from htoolsd.policies.schedule import Policies
from htoolsd.process import check_config, logs
from htoolsd.process.lock import lock
from htoolsd.process.logs import print_error
from htoolsd.process.mastership import EXIT_NOT_MASTER, ThisNode, known_cluster
from htoolsd.process.memory import share_arenas
from htoolsd.process.service_manager import notify, watch
from htoolsd.process.signals import handle_signals, reloader
from htoolsd.process.socket import first_socket, new_socket
from htoolsd.report.report import ReportPage
from htoolsd.socket import fallback_counter
from htoolsd.socket.acceptor import Acceptor
from htoolsd.socket.access import Access
from htoolsd.socket.methods import Args, Methods, methods_of
from htoolsd.socket.peer import SocketPeer, caller, describe_caller
from htoolsd.socket.roles import Role
from htoolsd.socket.server import Server
from htoolsd.sync.sync import Sync
from htoolsd.tasks import Task, keep_running
from htoolsd.threads import LONGEST, Computations

_log = structlog.get_logger()

_DESCRIPTORS = 1 << 16  # that clients may pass, and their closes block, before there is no room for others
_QUEUE_SECONDS = 30.0  # for the answers to those who waited for the start


def main(argv: Sequence[str] | None = None, signs: Sequence[socket.socket] = ()) -> int:
    """Run until SIGTERM or SIGINT; return the exit status.

    ``signs`` are the open signs of the start, which are closed a while after it.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is handled
    streams.complete()
    logs.configure()
    options = vars(argument_parser().parse_args(argv))
    path, stay, check = options.pop("config"), options.pop("stay"), options.pop("check_config")
    descriptor = options.pop("socket_fd")

    def read_config() -> Config:
        config = load(path, options)
        if exposes_password(path, config):
            _log.warning("configuration with a password can be read by all users", path=path)
        return config

    if check:
        with check_config.daemon_user(path, options):
            errors, warnings = check_config.check(path, options)
        for line in (*(f"warning: {each}" for each in warnings), *errors):
            print_error(line)
        if not errors:
            print(f"{path or 'no configuration file'}: no errors")
        return 1 if errors else 0
    try:
        config = read_config()
        ssconf = this_node(config.ssconf_dir)
        if not stay and ssconf.is_other_node_master():
            print_error(f"not the master node; that is {ssconf.master()}")
            return EXIT_NOT_MASTER
        lock(config.state_dir)  # held until the process ends
        listener = first_socket(config.socket, config.group, descriptor)
        fallback_counter.provide(config.socket, config.group)
    except HtoolsError as err:
        print_error(str(err))
        return 1
    # The event loop waits so many seconds for the GIL while a thread computes, about ten times per answer.
    sys.setswitchinterval(0.0005)
    share_arenas()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _DESCRIPTORS)), hard))
    gc.freeze()  # a full collection stops all threads, so it skips what was imported
    acceptor = Acceptor(listener, partial(new_socket, config.socket, config.group))
    try:
        trio.run(_run, Settings(config), read_config, ssconf, acceptor, ReloadStatus(path), signs)
    finally:
        acceptor.close()
    return 0


async def _run(
    settings: Settings,
    read_config: Callable[[], Config],
    ssconf: Ssconf,
    acceptor: Acceptor,
    reload: ReloadStatus,
    signs: Sequence[socket.socket] = (),
) -> None:
    """Compose the daemon and run it until it is stopped."""
    config, node = settings.now, ThisNode(ssconf)  # of config only what is fixed
    sync = Sync(
        config.luxi or default_socket(),
        node.leads,
        settings,
        show_status=lambda summary: notify(f"STATUS={summary}"),
        configuration_file=ssconf.configuration,
        standby_file=os.path.join(config.state_dir, "standby.data"),
    )
    history = History(os.path.join(config.state_dir, "history.sqlite"), settings)

    ledger = LedgerWorker(config.ledger or file_url(config.state_dir))
    reconciler = Reconciler(sync, ledger, settings)

    claims = Claims(settings, lambda: sync.model.cluster is not None)
    sync.on_pending_work(claims.needs_queue, claims.check)

    def cluster_name() -> str | None:
        return sync.model.name or ssconf.cluster()

    def own_cluster() -> str | None:
        """Return the cluster's name, None if another node or daemon acts on it."""
        return None if sync.obstacle() or node.ssconf.is_other_node_master() else cluster_name()

    claim_writer = ClaimWriter(claims, ledger, reconciler, own_cluster, settings)
    decisions = Decisions(
        settings,
        lambda: known_cluster(sync, node),
        sync.storage.request_units,
        sync.poll_configuration,
        history.note,
        claim_writer,
    )
    computations = Computations(decisions.idle, LONGEST)
    methods = Methods()
    access = Access(settings)

    def record_call(method: str, args: Args) -> None:
        history.note(entries.call(time.time(), method, args, describe_caller()))

    server = Server(methods, settings, access, record_call)

    async def look() -> tuple[Sequence[Mapping[str, Any]], bool]:
        report = await status.report()
        cluster = report["cluster"]
        complete = cluster["master"] and cluster["nodes"] is not None and report["groups"] is not None
        return report["attention"], bool(complete)

    notified = os.path.join(config.state_dir, "notified.json")
    notifier = Notifier(notified, settings, look, cluster_name)

    def note(entry: entries.HistoryEntry) -> None:
        history.note(entry)
        notifier.note(entry)

    def note_plan(plan: Plan) -> None:
        note(entries.plan(time.time(), plan.to_json()))
        policies.ended(plan)

    plan_claims = PlanClaims(sync, ledger, reconciler, claims, claim_writer.promise)
    state_dir = os.path.abspath(config.state_dir)
    copies = StateCopies(ledger, lambda: f"{node.ssconf.name}:{state_dir}", own_cluster)
    plans = Plans(os.path.join(config.state_dir, "plans"), sync, note_plan, plan_claims, copies.put)
    reconciler.release_other_plans(plans.active_ids)
    policies = Policies(
        os.path.join(config.state_dir, "policies.json"),
        sync,
        plans,
        settings,
        lambda decision: note(entries.policy(decision.time, asdict(decision))),
        copies=copies,
    )
    capacity = CapacityCount(lambda: sync.model.available if sync.master else None)
    status = StatusMethods(
        config.socket,
        config.state_dir,
        node,
        server,
        sync,
        decisions,
        claims,
        plans,
        policies,
        history,
        ledger,
        reconciler,
        reload,
        capacity,
        notifier,
        lambda: http.status(),
    )
    metrics = MetricsMethods(status.report, sync)
    page = ReportPage(status.report, history, lambda: sync.model.available, cluster_name)
    http = HttpListener(settings, access, metrics.text, status.report, page.html)
    methods.add(
        *methods_of(
            decisions,
            ClusterMethods(sync, plan_claims.catch_up),
            PlanMethods(
                plans,
                sync,
                settings,
                policies.remake_proposal,
                lambda: access.roles.of(caller.get()) is Role.ACT,
                server.waiting,
            ),
            PolicyMethods(policies, sync, computations),
            HistoryMethods(history, sync, computations),
            LedgerMethods(
                ledger,
                cluster_name,
                sync.obstacle,
                reconciler.trigger,
                claims.cancel,
                InventoryTags(sync, reconciler.reconcile).write,
                settings,
                lambda: configured_reserves(reconciler.synced.desired) if reconciler.synced else {},
            ),
            CandidateMethods(ledger, lambda: reconciler.synced),
            status,
            metrics,
            ReportMethods(page),
            NotifyMethods(notifier),
        )
    )
    accepting, finishing = trio.CancelScope(), trio.CancelScope()

    def stop() -> None:
        """Finish what is under way. A second call stops without waiting."""
        notify("STOPPING=1")
        patience = 0 if plans.stopping else settings.now.stop_seconds
        finishing.deadline = trio.current_time() + patience
        plans.stop()

    def refuse() -> None:
        """Refuse all clients."""
        acceptor.close()
        accepting.cancel()
        decisions.stop()
        computations.stop()
        server.stop()

    async def accept() -> None:
        with accepting:
            await keep_running("socket", partial(acceptor.serve, client, clients))

    async def client(stream: trio.SocketStream) -> None:
        with closing(SocketPeer(stream.socket)) as peer:
            await server.serve(peer)

    async with open_nursery() as nursery:
        await nursery.start(handle_signals, stop, reloader(settings, read_config, reload))
        await nursery.start(keep_running, "roles", access.run)
        background: dict[str, Task] = {
            "watchdog": partial(watch, decisions),
            "history": history.run,
            "ledger": ledger.run,
            "copies": copies.run,
        }
        for name, task in background.items():
            nursery.start_soon(keep_running, name, task)
        with finishing:
            async with open_nursery() as clients:
                async with open_nursery() as planning:
                    await planning.start(keep_running, "plans", plans.run)
                    await nursery.start(keep_running, "claims", claim_writer.run)
                    notify("READY=1")
                    _log.info("ready", version=VERSION, socket=config.socket)
                    following: dict[str, Task] = {
                        "sync": sync.run,
                        "reconciler": reconciler.run,
                        "policies": policies.run,
                        "capacity": capacity.run,
                        "http": http.run,
                        "notifications": notifier.run,
                        "signs": acceptor.show_life,
                    }
                    for name, task in following.items():
                        nursery.start_soon(keep_running, name, task)
                    nursery.start_soon(_close_later, signs)
                    clients.start_soon(accept)
                refuse()  # plans are the only long work, so a restart takes moments from here
        nursery.cancel_scope.cancel()
    _log.info("stopped", unfinished=finishing.cancelled_caught)


async def _close_later(signs: Sequence[socket.socket]) -> None:
    """Close the signs of the start: from now on, nobody waits longer than usual."""
    await trio.sleep(_QUEUE_SECONDS)
    dispose(os.geteuid(), [sign.detach() for sign in signs])  # anybody may have sent something there
