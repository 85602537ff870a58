"""``htoolsd``: the daemon as a process."""

import gc
import os
import resource
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial

import structlog
import trio

from ganeti_htools import streams
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.nursery import open_nursery
from ganeti_htools.sources.ssconf import Ssconf, this_node
from ganeti_htools.version import VERSION
from htoolsd.api.parts import ReloadStatus
from htoolsd.config.config import Config, argument_parser, exposes_password, load
from htoolsd.config.settings import Settings
from htoolsd.disposal import dispose
from htoolsd.marks import provide_counter
from htoolsd.process import check_config, logs
from htoolsd.process.compose import Parts
from htoolsd.process.lock import lock
from htoolsd.process.logs import print_error
from htoolsd.process.memory import collect_garbage, share_arenas, switch_full_collections_off
from htoolsd.process.service_manager import notify, watch
from htoolsd.process.signals import handle_signals, reloader
from htoolsd.process.socket import first_socket, new_socket
from htoolsd.socket.acceptor import Acceptor
from htoolsd.socket.peer import SocketPeer
from htoolsd.tasks import Task, keep_running, note_defect

_log = structlog.get_logger()

_DESCRIPTORS = 1 << 16  # that clients may pass, and their closes block, before there is no room for others
_EXIT_NOT_MASTER = 11  # the exit status of Ganeti's own master daemons on other nodes (ganeti-luxid(8))
_QUEUE_SECONDS = 30.0  # for the answers to those who waited for the start


def main(argv: Sequence[str] | None = None, signs: Sequence[socket.socket] = ()) -> int:
    """Run until SIGTERM or SIGINT; return the exit status.

    ``signs`` are the open signs of the start, which are closed a while after it.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is handled
    streams.open_missing()
    logs.configure()
    options = vars(argument_parser().parse_args(argv))
    path, stay, check = options.pop("config"), options.pop("stay"), options.pop("check_config")
    online = options.pop("online")
    descriptor = options.pop("socket_fd")

    if check:
        with check_config.daemon_user(path, options):
            errors, warnings = check_config.check(path, options, online)
        for line in (*(f"warning: {each}" for each in warnings), *errors):
            print_error(line)
        if not errors:
            print(f"{path or 'no configuration file'}: no errors")
        return 1 if errors else 0
    with ExitStack() as stack:
        try:
            run = stack.enter_context(prepared(path, options, stay, descriptor))
        except HtoolsError as err:
            print_error(str(err))
            return _EXIT_NOT_MASTER if isinstance(err, NotMasterError) else 1
        # The event loop waits so many seconds for the GIL while a thread computes, ten times per answer.
        sys.setswitchinterval(0.0005)
        share_arenas()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _DESCRIPTORS)), hard))
        switch_full_collections_off()
        trio.run(run, signs)
        gc.freeze()  # the interpreter collects once more at its end
    return 0


class NotMasterError(HtoolsError):
    """The daemon runs on the master only, and this is another node."""


@contextmanager
def prepared(
    path: str | None, options: dict[str, str | None], stay: bool = False, descriptor: int | None = None
) -> Iterator[Callable[[Sequence[socket.socket]], Awaitable[None]]]:
    """Take the state directory and the socket; return what runs the daemon. Raises HtoolsError.

    ``path`` and ``options`` are as in :func:`htoolsd.config.config.load`.
    """

    def read_config() -> Config:
        config = load(path, options)
        if exposes_password(path, config):
            _log.warning("configuration with a password can be read by all users", path=path)
        return config

    config = read_config()
    ssconf = this_node(config.ssconf_dir)
    if not stay and ssconf.is_other_node_master():
        raise NotMasterError(f"not the master node; that is {ssconf.master()}")
    lock(config.state_dir)  # held until the process ends
    listener = first_socket(config.socket, config.group, descriptor)
    provide_counter(config.socket, config.group)
    with closing(Acceptor(listener, partial(new_socket, config.socket, config.group))) as acceptor:
        yield partial(_run, Settings(config), read_config, ssconf, acceptor, ReloadStatus(path))


async def _run(
    settings: Settings,
    read_config: Callable[[], Config],
    ssconf: Ssconf,
    acceptor: Acceptor,
    reload: ReloadStatus,
    signs: Sequence[socket.socket] = (),
) -> None:
    """Run the daemon until it is stopped."""
    parts = Parts(settings, ssconf, reload)
    following, deciding, plans = parts.following, parts.deciding, parts.planning.plans
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
        deciding.decisions.stop()
        parts.computations.stop()
        plans.turn.stop()
        deciding.server.stop()

    async def accept() -> None:
        with accepting:
            await keep_running("socket", partial(acceptor.serve, client, clients))

    async def client(stream: trio.SocketStream) -> None:
        try:
            with closing(SocketPeer(stream.socket)) as peer:
                await deciding.server.serve(peer)
        except Exception as defect:  # it ends one conversation
            note_defect("clients", defect)

    async with open_nursery() as nursery:
        await nursery.start(handle_signals, stop, reloader(settings, read_config, reload))
        await nursery.start(keep_running, "roles", deciding.access.run)
        background: dict[str, Task] = {
            "watchdog": partial(watch, deciding.decisions, following.sync),
            "history": following.history.run,
            "ledger": following.ledger.run,
            "copies": parts.planning.copies.run,
        }
        for name, task in background.items():
            nursery.start_soon(keep_running, name, task)
        with finishing:
            async with open_nursery() as clients:
                async with open_nursery() as planning:
                    await planning.start(keep_running, "plans", plans.run)
                    await nursery.start(keep_running, "claims", deciding.claims.run)
                    notify("READY=1")
                    _log.info("ready", version=VERSION, socket=settings.now.socket)
                    tasks: dict[str, Task] = {
                        "sync": following.sync.run,
                        "storage": following.storage.run,
                        "reconciler": following.reconciler.run,
                        "policies": parts.planning.policies.run,
                        "capacity": following.capacity.run,
                        "forecast": following.forecast.run,
                        "load": following.load.run,
                        "http": parts.http.run,
                        "notifications": parts.notifier.run,
                        "witness": deciding.witness.run,
                        "recording": deciding.recording.run,
                        "memory": partial(collect_garbage, deciding.decisions),
                    }
                    for name, task in tasks.items():
                        nursery.start_soon(keep_running, name, task)
                    nursery.start_soon(_close_later, signs)
                    clients.start_soon(accept)
                refuse()  # decisions under way are answered; computations and calls that wait end at once
        nursery.cancel_scope.cancel()
    _log.info("stopped", unfinished=finishing.cancelled_caught)


async def _close_later(signs: Sequence[socket.socket]) -> None:
    """Close the signs of the start: from now on, nobody waits longer than usual."""
    await trio.sleep(_QUEUE_SECONDS)
    dispose(os.geteuid(), [sign.detach() for sign in signs])  # anybody may have sent something there
