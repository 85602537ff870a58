"""``htoolsd``: the daemon as a process."""

import argparse
import gc
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import inf

import structlog
import trio

from ganeti_htools import streams
from ganeti_htools.client.protocol import Kind, RefusalError
from ganeti_htools.luxi.queries import default_socket
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning.decision import Known
from htoolsd.api import status
from htoolsd.api.cluster import ClusterMethods
from htoolsd.api.decisions import Decisions
from htoolsd.api.plans import PlanMethods
from htoolsd.plans.plans import Plans
from htoolsd.process import alone, logs, mastership
from htoolsd.process.config import Config, describe, load, reloaded
from htoolsd.process.listening import group_number, listen, lock
from htoolsd.process.logs import complain
from htoolsd.process.mastership import EXIT_NOT_MASTER, Place
from htoolsd.process.notify import notify, watchdog
from htoolsd.process.version import VERSION
from htoolsd.socket.door import Door
from htoolsd.socket.methods import Methods
from htoolsd.socket.peer import SocketPeer
from htoolsd.socket.server import Limits, Server
from htoolsd.sync.following import Sync
from htoolsd.sync.model import LIVE

_log = structlog.get_logger()

SHOW_SECONDS = 5  # a third of what the executable takes for a moment (LATELY)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; the exit status."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is heeded
    streams.complete()
    logs.configure()
    options = vars(_parser().parse_args(argv))
    path, stay, check = options.pop("config"), options.pop("stay"), options.pop("check_config")
    reading = partial(load, path, options)
    try:
        config = reading()
        if check:
            group_number(config.group)
            print(f"{path or 'no configuration file'}: nothing is wrong")
            return 0
        place = mastership.here(config.ssconf_dir)
        if not stay and place.surely_follows():
            complain(f"not the master node, that is {place.master()}")
            return EXIT_NOT_MASTER
        lock(config.state_dir)  # held until the process ends
        listener = listen(config.socket, config.group)
        alone.provide(config.socket, config.group)
    except HtoolsError as err:
        complain(str(err))
        return 1
    # A thread that computes gives way after this long, each time the event loop wants to go on; an answer
    # takes it about ten such waits.
    sys.setswitchinterval(0.0005)
    gc.freeze()  # a full collection stops all threads; it need not look at what was imported
    door = Door(listener, config.group)
    try:
        trio.run(_run, config, reading, place, door)
    finally:
        door.close()
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
    parser.add_argument(
        "--stay", action="store_true", help="elsewhere than on the master node, wait for the role"
    )
    parser.add_argument(
        "--check-config", action="store_true", help="only tell whether the configuration is right"
    )
    parser.add_argument("--version", action="version", version=f"htoolsd {VERSION}")
    return parser


async def _run(config: Config, reading: Callable[[], Config], place: Place, door: Door) -> None:
    sync = Sync(
        config.luxi or default_socket(),
        role(place),
        config.config_seconds,
        config.live_seconds,
        tell=lambda summary: notify(f"STATUS={summary}"),
    )
    decisions = Decisions(*_patience(config), partial(known, sync, place))
    methods = Methods()
    server = Server(methods, _limits(config))
    plans = Plans(os.path.join(config.state_dir, "plans"), sync)
    methods.add(decisions.method)
    methods.add(status.method(config, server, sync, decisions, plans))
    for method in (*ClusterMethods(sync).methods, *PlanMethods(plans, sync).methods):
        methods.add(method)
    accepting, finishing = trio.CancelScope(), trio.CancelScope()

    def reload() -> None:
        """Read the configuration again; one that is wrong changes nothing."""
        nonlocal config
        notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            config, waiting = reloaded(config, reading())
        except HtoolsError as error:
            _log.error("configuration not reloaded", error=str(error))
        else:
            decisions.limit(*_patience(config))
            server.limit(_limits(config))
            sync.pace(config.config_seconds, config.live_seconds)
            _log.info("configuration reloaded")
            if waiting:
                _log.warning("takes a restart", keys=waiting)
        notify("READY=1")

    def stop() -> None:
        """Finish what is under way; called again, without waiting for it."""
        notify("STOPPING=1")
        patience = 0 if accepting.cancel_called else config.stop_seconds
        finishing.deadline = trio.current_time() + patience
        door.close()
        accepting.cancel()
        decisions.stop()
        plans.stop()
        server.stop()

    async def client(stream: trio.SocketStream) -> None:
        async with stream:
            await server.serve(SocketPeer(stream.socket))

    async with trio.open_nursery() as nursery:
        await nursery.start(_on_signal, stop, reload)
        nursery.start_soon(_watch, decisions)
        with finishing:
            async with trio.open_nursery() as clients:
                await clients.start(plans.run)
                notify("READY=1")
                _log.info("ready", version=VERSION, socket=config.socket)
                nursery.start_soon(sync.run)
                nursery.start_soon(_show, door)
                with accepting:
                    await door.serve(client, clients)
        nursery.cancel_scope.cancel()
    _log.info("stopped", unfinished=finishing.cancelled_caught)


async def _show(door: Door) -> None:
    while True:
        door.show()
        await trio.sleep(SHOW_SECONDS)


def _patience(config: Config) -> tuple[float, float, int]:
    return config.wait_seconds, config.decision_seconds, config.request_mib << 20


def _limits(config: Config) -> Limits:
    return Limits(
        connections=config.connections,
        per_user=config.connections_per_user,
        message=config.message_mib << 20,
        idle=config.idle_seconds,
        write=config.write_seconds,
    )


def role(place: Place) -> Callable[[], Awaitable[bool | None]]:
    """What tells whether this is the master node; what cannot be read now leaves it as it was."""
    told: bool | None = None
    complaint = ""

    def look() -> bool:
        nonlocal place
        if not place.leads():  # at boot, the node's name may have been asked for before it could be told
            place = mastership.here(place.directory)
        return place.leads()

    async def leads() -> bool | None:
        nonlocal told, complaint
        try:
            told, why = await trio.to_thread.run_sync(look), ""
        except OSError as error:
            why = f"{error.filename}: {error.strerror}"
        if why and why != complaint:
            _log.warning("who is master cannot be told", error=why)
        complaint = why
        return told

    return leads


def known(sync: Sync, place: Place) -> tuple[Known | None, dict[str, float]]:
    """The cluster for decisions, and how old each kind of data is. Raises RefusalError.

    Elsewhere than on the master nobody decides; whoever has just become it may not have noticed yet.
    """
    if sync.master is False and place.surely_follows():
        raise RefusalError(Kind.CLUSTER, "this is not the master node")
    ages, cluster = sync.ages(), sync.model.cluster
    return (None if cluster is None else Known(cluster, ages[LIVE])), ages


async def _watch(decisions: Decisions) -> None:
    """Give up decisions that take too long, and let the service manager know as long as all is well.

    It is not told when the event loop is stuck, or when decisions are: then it starts the daemon anew.
    """
    patience = watchdog()
    pause = min(patience / 3, 1.0)
    while True:
        decisions.give_up_late()
        if decisions.healthy and patience < inf:
            notify("WATCHDOG=1")
        await trio.sleep(pause)


async def _on_signal(
    stop: Callable[[], None],
    reload: Callable[[], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP, *streams.heeded(signal.SIGINT)) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGHUP:
                reload()
            else:
                _log.info("stopping", signal=signal.Signals(number).name)
                stop()
