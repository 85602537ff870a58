"""A PostgreSQL server of Debian's package, on a Unix socket in a directory of its own."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import psycopg

from tests.support.programs import wait_until

_SETTINGS = {
    "fsync": "off",
    "listen_addresses": "",
    "deadlock_timeout": "50ms",
    "unix_socket_permissions": "0777",
    "shared_buffers": "16MB",
}
_NOBODY = 65534
_QUIET: dict[str, Any] = {"cwd": "/", "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}


def programs() -> Path | None:
    """Return the directory of the newest PostgreSQL's programs, None if it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    return found[-1].parent if found else None


class Server:
    """A server with its socket in a directory, and the command that starts it."""

    def __init__(self, directory: Path, command: Sequence[str | Path]) -> None:
        self._directory = directory
        self._command = [str(word) for word in command]

    def start(self) -> None:
        """Start the server; return when it answers."""
        with (self._directory / "log").open("a") as log:
            self._running = subprocess.Popen(self._command, stderr=log, **_QUIET)
        wait_until(lambda: self._running.poll() is not None or self.answers())
        assert self._running.poll() is None, (self._directory / "log").read_text()

    def stop(self) -> None:
        """Stop the server at once, and end its connections."""
        self._running.send_signal(signal.SIGQUIT)
        self._running.wait()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all processes of the server within the block; their connections stay open."""
        processes = [self._running.pid, *_children(self._running.pid)]
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in processes:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    @contextmanager
    def locked(self, database: str, lock: str) -> Iterator[None]:
        """Hold a lock on tables of a database (a URL) within the block; its process is stopped."""
        with psycopg.connect(database) as connection:
            connection.execute(lock.encode())
            os.kill(connection.info.backend_pid, signal.SIGSTOP)
            try:
                yield
            finally:
                os.kill(connection.info.backend_pid, signal.SIGCONT)

    def answers(self) -> bool:
        try:
            psycopg.connect(self._url).close()
        except psycopg.OperationalError:
            return False
        return True

    def database(self) -> str:
        """Return the URL of a new, empty schema."""
        schema = f"ledger_{uuid4().hex}"
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
        return f"{self._url}&options={quote(f'-csearch_path={schema}')}"

    @property
    def _url(self) -> str:
        return f"postgresql://tester@/postgres?host={quote(str(self._directory), safe='')}"


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def serving(programs: Path) -> Iterator[Server]:
    """Run a server within the block. It refuses to run as root, so root runs it as nobody."""
    directory = Path(tempfile.mkdtemp(prefix="htoolsd-postgresql-"))
    as_user = ["setpriv", "--pdeathsig=QUIT"]  # it ends with the tests, however they end
    if os.getuid() == 0:
        as_user += [f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
        os.chown(directory, _NOBODY, _NOBODY)
    data = directory / "data"
    initdb: list[str | Path] = [
        programs / "initdb",
        "--pgdata",
        data,
        "--username=tester",
        "--auth=trust",
        "--no-sync",
    ]
    initdb += ["--encoding=UTF8", "--no-locale"]
    options = [f"-c{key}={value}" for key, value in _SETTINGS.items()]
    postgres: list[str | Path] = [programs / "postgres", "-D", data, "-k", directory, *options]
    try:
        subprocess.run([*as_user, *initdb], check=True, **_QUIET)
        server = Server(directory, [*as_user, *postgres])
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory)
