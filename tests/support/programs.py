"""The real programs, run as their users run them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from ganeti_htools.client.calls import NoReplyError, ask
from ganeti_htools.model.cluster import Cluster
from tests.support import preloaded
from tests.support.clusters import Shape, cluster
from tests.support.messages import allocate, encode, message
from tests.support.rows import generated

ROOT = Path(__file__).parents[2]
EXECUTABLE = ROOT / "iallocator" / "htoolsd"
FALLBACK = ROOT / "iallocator" / "htoolsd_fallback.py"
PROGRAMS = Path(sys.executable).parent
# The executable is made for the system's interpreter; not every machine has one.
INTERPRETER = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
# Seconds until a test fails for want of an event.
PATIENCE = float(os.environ.get("HTOOLSD_TEST_PATIENCE", "30"))

Finished = subprocess.CompletedProcess[str]


def run(*command: object, environment: dict[str, str] | None = None, stdin: str = "") -> Finished:
    """Run a program to its end; one of ours is forked unless it needs an environment or input."""
    if environment is None and not stdin and isinstance(command[0], Path) and command[0].parent == PROGRAMS:
        return forked(*command)
    return subprocess.run(
        [str(word) for word in command],
        env=os.environ | (environment or {}),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def forked(*command: object) -> Finished:
    """Run one of our programs, or a script, in a fork to its end."""
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        program, *arguments = map(str, command)
        process = preloaded.start(program, arguments, output=out.fileno(), error=err.fileno())
        try:
            status = process.wait(PATIENCE)
        finally:
            process.kill()
        for each in out, err:
            each.seek(0)
        return Finished([program, *arguments], status, out.read(), err.read())


def executable(
    path: Path,
    *arguments: object,
    program: Path = EXECUTABLE,
    fallback: Path | str = PROGRAMS / "hail",
    prefix: tuple[str, ...] = (),
    **environment: str,
) -> Finished:
    """Ask the daemon at ``path`` as Ganeti does, with the one-shot program ``fallback`` behind."""
    surroundings = {"HTOOLSD_SOCKET": str(path), "HTOOLSD_HAIL": str(fallback), "LC_ALL": "C"}
    return run(*prefix, INTERPRETER, "-IS", program, *arguments, environment={**surroundings, **environment})


def altered_executable(directory: Path, old: str, new: str) -> Path:
    """Copy the executable and its module, with ``old`` replaced, which one of both has once."""
    assert EXECUTABLE.read_text().count(old) + FALLBACK.read_text().count(old) == 1
    for file in (EXECUTABLE, FALLBACK):
        copy = directory / file.name
        copy.write_text(file.read_text().replace(old, new))
        copy.chmod(file.stat().st_mode)
    return directory / EXECUTABLE.name


_hail: dict[tuple[bytes, tuple[str, ...]], Finished] = {}


def hail(request: Path | None = None, *options: str) -> Finished:
    """What the one-shot program says; run once for each content."""
    if request is None or not request.exists():
        return run(PROGRAMS / "hail", *([request] if request else []), *options)
    key = request.read_bytes(), options
    if key not in _hail:
        _hail[key] = run(PROGRAMS / "hail", request, *options)
    return _hail[key]


def wait_until(condition: Callable[[], object], patience: float = PATIENCE) -> None:
    """Ask less often the longer it takes, so that what is waited for gets the processor."""
    begin = time.monotonic()
    while not condition():
        waited = time.monotonic() - begin
        assert waited < patience
        time.sleep(min(0.005 + waited / 10, 0.1))


class Daemon:
    """A running htoolsd: a fork, or a program of its own that begins with the command ``prefix``."""

    def __init__(
        self,
        directory: Path,
        *,
        gated: bool = False,
        config: str = "",
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        patience: float = PATIENCE,
    ) -> None:
        directory.mkdir(exist_ok=True)
        self.socket = directory / "socket"
        self.state = directory / "state"
        self.log = directory / "log"
        self.gate = directory / "gate"
        self._directory = directory
        self.configure(config)
        arguments = [
            *("--socket", self.socket, "--state-dir", self.state),
            *("--luxi", directory / "luxi", "--config", directory / "config"),
            *options,
        ]
        surroundings = os.environ | {"HTOOLSD_TEST_GATE": str(self.gate)} | dict(environment or {})
        self.process: preloaded.Process | subprocess.Popen[bytes]
        with self.log.open("a") as log:
            if prefix:
                command = [*prefix, str(PROGRAMS / "htoolsd"), *map(str, arguments)]
                self.process = subprocess.Popen(command, env=surroundings, stdout=log, stderr=log)
            else:
                self.process = preloaded.start(
                    str(ROOT / "tests" / "daemon" / "gated_daemon.py") if gated else "htoolsd",
                    arguments,
                    environment=surroundings,
                    output=log.fileno(),
                    error=log.fileno(),
                )
        wait_until(lambda: self.process.poll() is not None or self._answers(), patience)
        assert self.process.poll() is None, self.log.read_text()

    def configure(self, config: str) -> None:
        """Write the configuration."""
        (self._directory / "config").write_text(f'ssconf_dir = "{self._directory}"\n{config}')

    def _answers(self) -> bool:
        try:
            return bool(self.status()["pid"] == self.process.pid)
        except NoReplyError:
            return False

    def status(self) -> Any:
        return ask(str(self.socket), "status", {}, patience=PATIENCE)

    def events(self) -> list[Any]:
        """The log so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def descriptors(self) -> Counter[str]:
        """What the process has open; not what it keeps in its state directory, nor what is of the moment."""
        found = self._open()
        for _ in range(20):
            time.sleep(0.01)
            found &= self._open()
        return found

    def _open(self) -> Counter[str]:
        directory, found = f"/proc/{self.process.pid}/fd", Counter[str]()
        for number in os.listdir(directory):
            with suppress(FileNotFoundError):  # closed meanwhile
                name = os.readlink(f"{directory}/{number}")
                found[name.partition(":[")[0]] += not name.startswith(f"{self.state}/")
        return found

    def wait_begun(self) -> None:
        """Until a gated decision is under way."""
        wait_until(Path(f"{self.gate}.begun").exists)

    def told(self, event: str) -> list[Any]:
        """What was logged of one kind."""
        return [each for each in self.events() if each["event"] == event]

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit status."""
        return self.process.wait(PATIENCE)

    def stop(self) -> int:
        self.signal()
        return self.wait()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def running(
    directory: Path,
    *,
    gated: bool = False,
    config: str = "",
    options: Sequence[str] = (),
    environment: dict[str, str] | None = None,
) -> Iterator[Daemon]:
    daemon = Daemon(directory, gated=gated, config=config, options=options, environment=environment)
    try:
        yield daemon
    finally:
        daemon.kill()


def connect(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(PATIENCE)
    sock.connect(str(path))
    return sock


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def set_last_sign(path: Path, age: float) -> None:
    """Let the daemon's last sign of life be ``age`` seconds ago."""
    sign = Path(f"{path}.lock")
    sign.touch()
    os.utime(sign, times=(time.time() - age,) * 2)


def stale(path: Path, age: float) -> Path:
    """A socket that nobody listens on any more, ``age`` seconds after the last sign of life."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    set_last_sign(path, age)
    return path


@contextmanager
def orphaned(path: Path) -> Iterator[socket.socket]:
    """A socket that this process keeps, and on which a process that has ended listened last."""
    with socket.socket(socket.AF_UNIX) as kept:
        kept.bind(str(path))
        os.set_inheritable(kept.fileno(), True)
        listen = f"import socket; socket.socket(fileno={kept.fileno()}).listen(2)"
        subprocess.run([INTERPRETER, "-ISc", listen], pass_fds=[kept.fileno()], check=True)
        set_last_sign(path, 0)
        yield kept


def small_cluster() -> Cluster:
    """Five nodes, for the simulator."""
    return generated(1, Shape())


def request_file(directory: Path, name: str = "request") -> Path:
    """A request that can be satisfied."""
    path = directory / name
    path.write_text(encode(message(cluster(1, Shape()), allocate("new.example.org"))))
    return path
