"""``htoolsd``: the daemon as a process."""

import argparse
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import structlog
import trio

from ganeti_htools.cli import streams
from ganeti_htools.decision import Known
from ganeti_htools.luxi.queries import default_socket
from ganeti_htools.model.errors import HtoolsError
from htoolsd import alone, logs, mastership, status
from htoolsd.cluster import ClusterMethods
from htoolsd.config import Config, describe, load
from htoolsd.decisions import Decisions
from htoolsd.listening import Listener, listen, lock
from htoolsd.mastership import EXIT_NOT_MASTER, Place
from htoolsd.methods import Methods
from htoolsd.model import LIVE
from htoolsd.notify import notify
from htoolsd.peer import SocketPeer
from htoolsd.plan_methods import PlanMethods
from htoolsd.plans import Plans
from htoolsd.server import Limits, Server
from htoolsd.sync import Sync
from htoolsd.version import VERSION

_log = structlog.get_logger()

SHOW_SECONDS = 5  # a third of what the executable takes for a moment (LATELY)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; the exit status."""
    streams.complete()
    logs.configure()
    options = vars(_parser().parse_args(argv))
    try:
        config = load(options.pop("config"), options)
        place = mastership.here(config.ssconf_dir)
        if not place.leads():
            print(f"htoolsd: not the master node, that is {place.master()}", file=sys.stderr)
            notify("READY=1")  # systemd takes a service for failed that ends before it is ready
            return EXIT_NOT_MASTER
        lock(config.state_dir)  # held until the process ends
        listener = listen(config.socket, config.group)
        alone.provide(config.socket, config.group)
    except HtoolsError as err:
        print(f"htoolsd: {err}", file=sys.stderr)
        return 1
    except OSError as err:
        print(f"htoolsd: {err.filename}: {err.strerror}", file=sys.stderr)
        return 1
    # A thread that computes gives way after this long, each time the event loop wants to go on; an answer
    # takes it about ten such waits.
    sys.setswitchinterval(0.0005)
    gc.freeze()  # a full collection stops all threads; it need not look at what was imported
    try:
        trio.run(_run, config, place, listener)
    finally:
        listener.remove()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="htoolsd",
        description="Answers iallocator requests on the Ganeti master.",
        epilog=f"Keys of the configuration file (TOML), and their defaults:\n{describe()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--socket", metavar="PATH", help="Unix socket to serve on")
    parser.add_argument("--state-dir", metavar="DIR", help="directory of the lock and of lasting state")
    parser.add_argument("--luxi", metavar="PATH", help="socket of Ganeti's luxid")
    parser.add_argument("--config", metavar="FILE", help="configuration; the options above win over it")
    parser.add_argument("--version", action="version", version=f"htoolsd {VERSION}")
    return parser


async def _run(config: Config, place: Place, listener: Listener) -> None:
    async def leads() -> bool:
        """What cannot be read now leaves the role as it is."""
        with suppress(OSError):
            return await trio.to_thread.run_sync(place.leads)
        return bool(sync.master)

    sync = Sync(
        config.luxi or default_socket(),
        leads,
        config.config_seconds,
        config.live_seconds,
        tell=lambda summary: notify(f"STATUS={summary}"),
    )
    decisions = Decisions(config.wait_seconds, config.request_mib << 20, partial(known, sync))
    methods = Methods()
    limits = Limits(
        connections=config.connections,
        per_user=config.connections_per_user,
        message=config.message_mib << 20,
        idle=config.idle_seconds,
        write=config.write_seconds,
    )
    server = Server(methods, limits)
    plans = Plans(os.path.join(config.state_dir, "plans"), sync)
    methods.add(decisions.method)
    methods.add(status.method(config, server, sync, decisions, plans))
    for method in (*ClusterMethods(sync).methods, *PlanMethods(plans, sync).methods):
        methods.add(method)
    accepting, finishing = trio.CancelScope(), trio.CancelScope()

    def stop() -> None:
        """Finish what is under way; called again, without waiting for it."""
        notify("STOPPING=1")
        patience = 0 if accepting.cancel_called else config.stop_seconds
        finishing.deadline = trio.current_time() + patience
        listener.remove()
        accepting.cancel()
        decisions.stop()
        plans.stop()
        server.stop()

    async def client(stream: trio.SocketStream) -> None:
        async with stream:
            await server.serve(SocketPeer(stream.socket))

    async with trio.open_nursery() as nursery:
        await nursery.start(_on_signal, stop)
        with finishing:
            async with trio.open_nursery() as clients:
                await clients.start(plans.run)
                notify("READY=1")
                _log.info("ready", version=VERSION, socket=config.socket)
                nursery.start_soon(sync.run)
                nursery.start_soon(_show, listener)
                with accepting:
                    listening = trio.SocketListener(trio.socket.from_stdlib_socket(listener.socket))
                    await trio.serve_listeners(client, [listening], handler_nursery=clients)
        nursery.cancel_scope.cancel()
    _log.info("stopped", unfinished=finishing.cancelled_caught)


async def _show(listener: Listener) -> None:
    while True:
        listener.show()
        await trio.sleep(SHOW_SECONDS)


def known(sync: Sync) -> tuple[Known | None, dict[str, float]]:
    """The cluster for decisions, and how old each kind of data is."""
    ages, cluster = sync.ages(), sync.model.cluster
    return (None if cluster is None else Known(cluster, ages[LIVE])), ages


async def _on_signal(
    stop: Callable[[], None], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    heeded = streams.heeded(signal.SIGINT, signal.SIGHUP)
    with trio.open_signal_receiver(signal.SIGTERM, *heeded) as signals:
        task_status.started()
        async for number in signals:
            _log.info("stopping", signal=signal.Signals(number).name)
            stop()
