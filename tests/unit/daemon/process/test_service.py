"""The daemon put together, in the process of the test."""

import json
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
from trio.testing import MockClock

from ganeti_htools.sources.ssconf import Ssconf
from htoolsd import tasks
from htoolsd.api.parts import ReloadStatus
from htoolsd.claims.claim_writer import ClaimWriter
from htoolsd.config.config import Config
from htoolsd.config.http import HttpSettings
from htoolsd.config.notify import NotifySettings
from htoolsd.config.policies import RebalanceSettings
from htoolsd.config.settings import Settings
from htoolsd.follow.reconciler import Reconciler
from htoolsd.history.history import History
from htoolsd.http.listener import HttpListener
from htoolsd.metrics.capacity import CapacityCount
from htoolsd.metrics.forecast import CapacityForecast
from htoolsd.notify.notifier import Notifier
from htoolsd.plans.plans import Plans
from htoolsd.policies.coordinator import Policies
from htoolsd.process import service, service_manager, signals
from htoolsd.socket.acceptor import Acceptor
from htoolsd.socket.access import Access
from htoolsd.socket.listening import listen
from htoolsd.socket.peer import SocketPeer
from htoolsd.socket.server import Server
from htoolsd.store.state_copies import StateCopies
from htoolsd.store.worker import LedgerWorker
from htoolsd.sync.storage_polls import StoragePolls
from htoolsd.sync.this_node import ThisNode
from tests.support.programs import PATIENCE

pytestmark = pytest.mark.usefixtures("heeding")


@dataclass
class Service:
    """The daemon of a node that is not the master. ``config`` is what its file says."""

    config: Config
    log: list[Any]
    told: list[str]  # to the service manager
    ended: trio.Event

    async def until(self, condition: Callable[[], object]) -> None:
        """Let it work until something is true."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, self.log
            await trio.lowlevel.checkpoint()

    def events(self) -> list[str]:
        return [line["event"] for line in self.log]

    async def stop(self) -> None:
        """Ask it to stop; it may go on for a while."""
        before = self.events().count("stopping")
        signal.raise_signal(signal.SIGTERM)
        await self.until(lambda: self.events().count("stopping") > before)

    async def status(self) -> Any:
        async with await trio.open_unix_socket(self.config.socket) as stream:
            await stream.send_all(b'{"method":"status","args":{},"version":1}\x03')
            answer = b""
            while not answer.endswith(b"\x03"):
                answer += await stream.receive_some()
        return json.loads(answer[:-1])["result"]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    for module in (service, service_manager, signals):
        monkeypatch.setattr(module, "notify", lambda *each: lines.extend(each))
    return lines


@asynccontextmanager
async def started(
    directory: Path, told: list[str], master: str = "another", **config: Any
) -> AsyncIterator[Service]:
    """A daemon that is ready; it must have ended afterwards."""
    (directory / "ssconf_master_node").write_text(master)
    settings = Config(socket=str(directory / "socket"), state_dir=str(directory / "state"), **config)
    with structlog.testing.capture_logs() as log:
        daemon = Service(settings, log, told, trio.Event())

        async def run() -> None:
            acceptor = Acceptor(listen(settings.socket, ""), partial(listen, settings.socket, ""))
            here = Ssconf("here", str(directory))
            with closing(acceptor):
                await service._run(Settings(settings), lambda: daemon.config, here, acceptor, ReloadStatus())
            daemon.ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await daemon.until(lambda: "READY=1" in told and "role" in daemon.events())
            yield daemon


async def test_reports_ready_and_stopping_to_the_service_manager(tmp_path: Path, told: list[str]) -> None:
    async with started(tmp_path, told) as daemon:
        status = await daemon.status()
        assert (status["cluster"]["master"], status["luxi"]["state"]) == (False, "not asked")
        await daemon.until(lambda: "STATUS=no cluster yet; this is not the master node" in told)
        await daemon.stop()
        await daemon.ended.wait()
        assert not Path(daemon.config.socket).exists()
    assert daemon.log[-1] == {"event": "stopped", "unfinished": False, "log_level": "info"}
    assert [line for line in told if not line.startswith("STATUS=")] == ["READY=1", "STOPPING=1"]


async def test_new_configuration_reaches_every_part(tmp_path: Path, told: list[str]) -> None:
    async with started(tmp_path, told) as daemon:
        daemon.config = replace(
            daemon.config,
            claims="always",
            http=HttpSettings(f"unix:{tmp_path}/http"),
            notify=NotifySettings("/nonexistent"),
            rebalance=RebalanceSettings("shadow"),
        )
        signal.raise_signal(signal.SIGHUP)
        await daemon.until(lambda: "HTTP listening" in daemon.events())
        status = await daemon.status()
        assert (status["claims"]["active"], status["notify"]["way"]) == (True, "/nonexistent")
        assert status["http"]["listen"] == daemon.config.http.listen
        assert [each["mode"] for each in status["policies"] if each["mode"] != "off"] == ["shadow"]
        await daemon.stop()
        await daemon.ended.wait()
    assert told.count("READY=1") == 2


@pytest.mark.parametrize(("count", "seconds"), [(1, 30.0), (2, 0.0)])
async def test_second_stop_does_not_wait(
    tmp_path: Path,
    told: list[str],
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
    count: int,
    seconds: float,
) -> None:
    """For what is under way, unless it is asked for again."""

    async def never_ends(_server: Server, _peer: object) -> None:
        serving.set()
        await trio.sleep_forever()

    autojump_clock.autojump_threshold = inf
    serving = trio.Event()
    monkeypatch.setattr(Server, "serve", never_ends)
    async with (
        started(tmp_path, told, stop_seconds=30.0) as daemon,
        await trio.open_unix_socket(daemon.config.socket),
    ):
        await serving.wait()
        began = trio.current_time()
        for _ in range(count):
            await daemon.stop()
        autojump_clock.autojump_threshold = 0
        await daemon.ended.wait()
        assert seconds <= trio.current_time() - began <= seconds + 1
    assert daemon.log[-1] == {"event": "stopped", "unfinished": True, "log_level": "info"}


TASKS: dict[str, tuple[object, str]] = {
    "watchdog": (service, "watch"),
    "roles": (Access, "run"),
    "history": (History, "run"),
    "ledger": (LedgerWorker, "run"),
    "copies": (StateCopies, "run"),
    "plans": (Plans, "run"),
    "old plans": (Plans, "_forget_old"),
    "claims": (ClaimWriter, "run"),
    "sync": (ThisNode, "leads"),
    "storage": (StoragePolls, "run"),
    "reconciler": (Reconciler, "run"),
    "policies": (Policies, "_round"),
    "settings of policies": (Policies, "_follow_settings"),
    "events for policies": (Policies, "_take_over"),
    "capacity": (CapacityCount, "run"),
    "forecast": (CapacityForecast, "run"),
    "http": (HttpListener, "run"),
    "notifications": (Notifier, "run"),
    "socket": (Acceptor, "serve"),
}


@pytest.mark.parametrize("name", TASKS)
async def test_defect_in_a_task_is_named_and_the_task_begins_again(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    where, attribute = TASKS[name]
    function, begun = getattr(where, attribute), 0

    async def fail_once(*args: object, **keywords: object) -> Any:
        nonlocal begun
        begun += 1
        if begun == 1:
            raise KeyError("a defect")
        return await function(*args, **keywords)

    monkeypatch.setattr(tasks, "_found", {})
    monkeypatch.setattr(tasks, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(where, attribute, fail_once)
    async with started(tmp_path, told, "here") as daemon:
        await daemon.until(lambda: begun > 1)
        status = await daemon.status()
        assert [(each["task"], each["count"]) for each in status["defects"]] == [(name, 1)]
        assert [line["names"] for line in status["attention"] if line["kind"] == "defect"] == [[name]]
        await daemon.stop()
        await daemon.ended.wait()
    assert [line["task"] for line in daemon.log if line["event"] == "task failed"] == [name]


async def test_defect_of_one_conversation_is_named_and_others_go_on(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr(tasks, "_found", {})
    async with started(tmp_path, told) as daemon:
        with monkeypatch.context() as patched:
            patched.setattr(SocketPeer, "__init__", fail)
            async with await trio.open_unix_socket(daemon.config.socket):
                await daemon.until(lambda: "task failed" in daemon.events())
        assert [each["task"] for each in (await daemon.status())["defects"]] == ["clients"]
        await daemon.stop()
        await daemon.ended.wait()


async def test_reload_survives_a_defect(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object) -> None:
        raise KeyError("a defect")

    async with started(tmp_path, told) as daemon:
        with monkeypatch.context() as patched:
            patched.setattr(signals, "reloaded", fail)
            signal.raise_signal(signal.SIGHUP)
            await daemon.until(lambda: "configuration not reloaded" in daemon.events())
        assert (await daemon.status())["reload"]["error"] == "KeyError: 'a defect'"
        signal.raise_signal(signal.SIGHUP)
        await daemon.until(lambda: "configuration reloaded" in daemon.events())
        assert (await daemon.status())["reload"]["error"] is None
        await daemon.stop()
        await daemon.ended.wait()
