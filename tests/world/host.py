"""A host: a master candidate, its disk, and the daemon that runs there."""

import errno
import os
import random
import shutil
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import trio

from ganeti_htools.model.errors import HtoolsError
from htoolsd import tasks
from htoolsd.process import service
from tests.world.machine import KilledError, Life, present
from tests.world.world import World

_RESTART = 2.0  # seconds until the service manager starts a daemon again
_WRITEBACK = 30.0  # seconds until the kernel writes down what nobody has synced


class Disk:
    """The disk of a host. ``full`` and ``read_only`` refuse writes."""

    def __init__(self, host: "Host") -> None:
        self.full = self.read_only = False
        self.kill_in = 0  # writes until the daemon is killed; 0: it is not
        self._host = host
        self._synced = set[tuple[int, int]]()
        self._renamed: dict[str, tuple[float, bytes | None, bool]] = {}  # time, old content, was it synced

    def write(self) -> None:
        """Count a write of the daemon, which may fail. Raises OSError, KilledError."""
        if self.kill_in:
            self.kill_in -= 1
            if not self.kill_in:
                self._host.strike()
                raise KilledError
        if self.full or self.read_only:
            number = errno.ENOSPC if self.full else errno.EROFS
            raise OSError(number, os.strerror(number))

    def sync(self, descriptor: int) -> None:
        """Note that the content of a file is on the disk."""
        found = os.fstat(descriptor)
        self._synced.add((found.st_dev, found.st_ino))

    def rename(self, old: str, new: str) -> None:
        """Note that a file takes the place of another."""
        found = os.stat(old)
        content = Path(new).read_bytes() if Path(new).exists() else None
        synced = (found.st_dev, found.st_ino) in self._synced
        self._synced.discard((found.st_dev, found.st_ino))
        if not synced:
            self._host.world.record("unsynced", host=self._host.name, file=os.path.basename(new))
        self._renamed[new] = trio.current_time(), content, synced

    def lose(self, chance: random.Random) -> None:
        """Lose what was not on the disk when the power failed: late renames, and content without a sync."""
        for path, (when, content, synced) in self._renamed.items():
            if trio.current_time() - when > _WRITEBACK or not os.path.exists(path):
                continue
            if not synced:
                size = os.path.getsize(path)
                os.truncate(path, chance.randrange(size + 1))
            elif chance.random() < 0.5:
                if content is None:
                    os.unlink(path)
                else:
                    Path(path).write_bytes(content)
        self._renamed.clear()


class Host:
    """A node with a daemon. ``stays_down`` after :meth:`stop`: otherwise it is started again."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.directory = world.directory / str(len(world.hosts))
        self.state = str(self.directory / "state")
        self.luxi, self.socket = str(self.directory / "luxi"), str(self.directory / "socket")
        self.disk = Disk(self)
        self.stays_down = False
        self.defect_in = 0  # uses of a thread until one raises an error
        self.name_service = name  # what the resolver says
        self._ssconf = self.directory / "ssconf"
        self._config = self.directory / "htoolsd.toml"
        self._life: Life | None = None
        self._manager = str(self.directory / "notify")
        self._ssconf.mkdir(parents=True)
        self.environment = {"NOTIFY_SOCKET": self._manager, "PATH": os.environ["PATH"], "TZ": "Europe/Berlin"}
        world.nursery.start_soon(self._manage)

    @property
    def running(self) -> bool:
        """Whether a daemon runs."""
        return self._life is not None

    def resolver(self) -> str:
        """Return the name of this host, as its name service says."""
        return self.name_service

    def ssconf(self, master: str, candidates: Sequence[str], cluster: str) -> None:
        """Write Ganeti's ssconf files."""
        lines = {"master_node": [master], "master_candidates": candidates, "cluster_name": [cluster]}
        for name, values in lines.items():
            path = self._ssconf / f"ssconf_{name}"
            (self._ssconf / "new").write_text("".join(f"{value}\n" for value in values))
            (self._ssconf / "new").rename(path)

    def configure(self, **keys: Any) -> None:
        """Write the configuration; tables are dictionaries."""
        given = {
            "socket": self.socket,
            "state_dir": self.state,
            "luxi": self.luxi,
            "ssconf_dir": str(self._ssconf),
        }
        keys = {**given, **keys}
        text = [f"{key} = {_toml(value)}" for key, value in keys.items() if not isinstance(value, dict)]
        for name, table in keys.items():
            if isinstance(table, dict):
                text += [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
        self._config.write_text("\n".join([*text, ""]))

    async def start(self) -> None:
        """Start the daemon, and wait until it is ready or has ended."""
        self.stays_down = False
        if self._life is None:
            await self.world.nursery.start(self._run)

    def reload(self) -> None:
        """Send SIGHUP."""
        self._signal(signal.SIGHUP)

    async def stop(self) -> None:
        """Send SIGTERM, and wait for the end."""
        self.stays_down = True
        if (life := self._life) is not None:
            self._signal(signal.SIGTERM)
            await life.ended.wait()

    def _signal(self, number: int) -> None:
        if self._life is not None and self._life.signals is not None:
            self._life.signals.send_nowait(number)

    async def kill(self) -> None:
        """Kill the daemon (SIGKILL), and wait until the service manager knows."""
        if (life := self._life) is not None:
            self.strike()
            await life.ended.wait()

    def strike(self, power: bool = False) -> None:
        """Kill the daemon now: files stay as they are at this moment. With ``power``, some are lost."""
        life = self._life
        if life is None or life.killed:
            return
        life.killed = True
        self.world.record("daemon", host=self.name, event="killed", power=power)
        if power:
            self.disk.lose(self.world.chance("disk"))
        shutil.copytree(self.state, f"{self.state}.next")
        with suppress(FileNotFoundError):  # an ending daemon removes the name, a killed one does not
            os.rename(self.socket, f"{self.socket}.next")
        for stream in life.streams:
            with suppress(OSError, trio.ClosedResourceError):
                stream.socket.shutdown(socket.SHUT_RDWR)
        life.scope.cancel()

    def kill_at(self, steps: int) -> None:
        """Kill the daemon before the step after so many of its tasks."""
        if self._life is not None:
            trio.lowlevel.add_instrument(_Steps(self, self._life, steps))

    async def _run(self, *, task_status: trio.TaskStatus[None]) -> None:
        life = self._life = Life(self)
        present.set(life)
        tasks._found.clear()
        self.world.record("daemon", host=self.name, event="started")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._report_ready, life, task_status)
            try:
                with life.scope, service.prepared(str(self._config), {}, stay=True) as run:
                    await run(())
            except HtoolsError as error:
                self.world.record("daemon", host=self.name, event="refused", error=str(error))
            except BaseException:
                if not life.killed:
                    raise
            self._bury(life)
            nursery.cancel_scope.cancel()
        if not life.ready.is_set():
            task_status.started()

    async def _report_ready(self, life: Life, task_status: trio.TaskStatus[None]) -> None:
        await life.ready.wait()
        task_status.started()

    def _bury(self, life: Life) -> None:
        """Leave the disk as the end found it, and have the daemon started again."""
        for descriptor in life.locks:
            os.close(descriptor)
        if life.killed:
            shutil.rmtree(self.state)
            os.rename(f"{self.state}.next", self.state)
            with suppress(FileNotFoundError):
                os.rename(f"{self.socket}.next", self.socket)
        else:
            self.world.record("daemon", host=self.name, event="ended")
        self._life = None
        life.ended.set()
        if not self.stays_down:
            self.world.nursery.start_soon(self._restart)

    async def _restart(self) -> None:
        await trio.sleep(_RESTART)
        if not self.stays_down:
            await self.start()

    async def _manage(self) -> None:
        """Read what the daemon tells the service manager."""
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        bound.bind(self._manager)  # trio would do that in a thread, whose end comes when it comes
        with trio.socket.from_stdlib_socket(bound) as sock:
            while True:
                lines = (await sock.recv(1 << 16)).decode().splitlines()
                if lines != ["WATCHDOG=1"]:
                    self.world.record(
                        "notify", host=self.name, lines=[line for line in lines if "USEC" not in line]
                    )
                if "READY=1" in lines and self._life is not None:
                    self._life.ready.set()


class _Steps(trio.abc.Instrument):
    """Counts the steps of a daemon's tasks, and kills it."""

    def __init__(self, host: Host, life: Life, left: int) -> None:
        self._host, self._life, self._left = host, life, left

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= task.context.get(present) is self._life
        if self._left <= 0 or self._life.killed:
            trio.lowlevel.remove_instrument(self)
            self._host.strike()


def _toml(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case list() | tuple():
            return f"[{', '.join(map(_toml, value))}]"
    return str(value)
