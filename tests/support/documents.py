"""The examples of README, ``docs/`` and ``man/``: found, run, and their output compared or written anew.

An example is a block that is indented by four spaces. A comment on a line of its own says what it is:

* none: commands of a shell. Blocks with our programs are run in a directory with the sample clusters.
* ``<!-- output -->``: what the commands of the block before print. ``...`` stands for any text.
* ``<!-- cluster FILE -->``: a sample cluster, as it is in ``examples/``.
* ``<!-- file NAME -->``: a file that the commands below read.
* ``<!-- config -->``: a configuration of the daemon, or a part of one.
* ``<!-- text -->``: something else.
* ``<!-- not run: WHY -->``: commands that are only parsed.

``<!-- daemon FILE [KEY=VALUE] -->`` above the examples: a daemon follows this sample cluster. ``-L`` and
``-D`` find it without an argument. ``<!-- new session -->`` starts a new shell and a new daemon.

``python -m tests.support.documents FILE...`` runs the examples of documents and writes their output there.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from ganeti_htools.backends import text
from ganeti_htools.cli import htoolsctl
from ganeti_htools.commandline.programs import PROGRAMS as TOOLS
from ganeti_htools.commandline.reading import Reply, read
from ganeti_htools.simulator import program as simulator_program
from htoolsd.config.config import argument_parser
from tests.support import preloaded
from tests.support.programs import INTERPRETER, PATIENCE, PROGRAMS, ROOT, running, script, wait_until
from tests.support.simulators import simulator

SAMPLES = ROOT / "examples"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "man").glob("*.md"))]
OURS = {
    *("hail", "hbal", "hcheck", "hinfo", "hmaintain", "hregroup", "hroller", "hscan"),
    *("hspace", "hsqueeze", "htools"),
    *("htoolsctl", "htoolsd", "htools-simulator"),
}
# Programs of every system that examples may use beside ours.
_COMMON = {
    *("cd", "cp", "export", "head", "kill", "mkdir", "sleep", "cat", "rm", "cut", "grep", "tail", "sed"),
    "python3",
}
_COMMENT = re.compile(r"<!-- (.*) -->")
_ITEM = re.compile(r":   |[*-] |\d+\. ")


@dataclass(frozen=True, slots=True)
class Block:
    """An example: its kind, the word behind that, its text, and the lines of the document that it is on."""

    kind: str
    argument: str
    text: str
    first: int
    last: int

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command, without redirections and what is behind a pipe."""
        if self.kind not in ("shell", "not"):
            return []
        lines = self.text.replace("\\\n", " ").splitlines()
        words = (shlex.split(line.split(" | ")[0], comments=True) for line in lines)
        return [[word for word in each if not re.match(r"\d*[<>&]", word)] for each in words if each]

    @property
    def script(self) -> str:
        """What a shell runs: the commands, or one that writes the file."""
        return f"cat >{self.argument} <<'EOF'\n{self.text}\nEOF" if self.kind == "file" else self.text

    @property
    def runs(self) -> bool:
        """Whether all commands are ours or common ones, and some are ours, or use our library."""
        names = {words[0] for words in self.commands if words}
        return self.kind == "shell" and bool(names & {*OURS, "python3"}) and names <= OURS | _COMMON


@dataclass(slots=True)
class Session:
    """Examples that are run one after the other in one shell, beside a daemon that follows ``sample``."""

    sample: str = ""
    blocks: list[Block] = field(default_factory=list)


def blocks(document: str) -> Iterator[Block]:
    """Yield the examples of a document, and its directives as blocks without text."""
    kind, argument, above = "shell", "", ""
    lines = document.splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        if match := _COMMENT.fullmatch(line):
            kind, _, argument = match[1].replace(":", "").partition(" ")
            above = line
            if kind in ("daemon", "new"):
                yield Block(kind, argument, "", number, number + 1)
                kind, argument = "shell", ""
        elif line.startswith("    ") and not _ITEM.match(above):
            end = number
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            while not lines[end - 1].strip():
                end -= 1
            yield Block(kind, argument, textwrap.dedent("\n".join(lines[number:end])), number, end)
            kind, argument = "shell", ""
            number = end
            continue
        elif line.strip() and not line.startswith("    "):
            kind, argument, above = "shell", "", line
        number += 1


def sessions(document: str) -> list[Session]:
    """Return the examples of a document that are run, with the output below them."""
    found = [Session()]
    ran = False
    for block in blocks(document):
        if block.kind in ("daemon", "new"):
            found.append(Session(block.argument if block.kind == "daemon" else found[-1].sample))
        elif block.runs or block.kind == "file" or (ran and block.kind == "output"):
            found[-1].blocks.append(block)
        ran = block.runs
    return [session for session in found if session.blocks]


# A tool of the shell: its program runs in a fork, with the streams of this one.
_STUB = f"""#!{INTERPRETER} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as forks:
    forks.connect(os.path.dirname(sys.argv[0]) + "/forks")
    order = os.path.basename(sys.argv[0]), sys.argv[1:], os.getcwd(), dict(os.environ)
    socket.send_fds(forks, [json.dumps(order).encode()], [0, 1, 2])
    forks.shutdown(socket.SHUT_WR)
    sys.exit(int(forks.recv(10)))
"""


class _Fork(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        data, streams, *_ = socket.recv_fds(self.request, 1 << 16, 3)
        while more := self.request.recv(1 << 16):
            data += more
        name, arguments, directory, environment = json.loads(data)
        where = dict(zip(("given", "output", "error"), streams, strict=True))
        process = preloaded.start(
            str(PROGRAMS / name), arguments, environment=environment, directory=directory, **where
        )
        for each in streams:
            os.close(each)
        self.request.sendall(b"%d" % process.wait())


@contextmanager
def tools(directory: Path) -> Iterator[None]:
    """Have our tools in a directory; daemons are programs of their own, for a shell sends them signals."""
    directory.mkdir()
    for name in OURS - {"htoolsd", "htools-simulator"}:
        script(directory / name, _STUB)
    with socketserver.ThreadingUnixStreamServer(str(directory / "forks"), _Fork) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        serving.start()
        try:
            yield
        finally:
            server.shutdown()
            serving.join()


class Shell:
    """A shell that runs blocks of commands."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._directory = directory
        self._process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, commands: str) -> tuple[str, int]:
        """Return what commands print, and the exit status of the last one.

        ``/tmp`` is a directory of the test.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        commands = commands.replace("/tmp/", f"{self._directory.parent}/")
        process.stdin.write(f'{commands}\necho "%END $?"\n')
        process.stdin.flush()
        printed: list[str] = []
        for line in process.stdout:
            if "%END " in line:
                rest, _, status = line.rpartition("%END ")
                return "".join([*printed, rest]).replace(f"{self._directory.parent}/", "/tmp/"), int(status)
            printed.append(line)
        raise AssertionError(f"the shell ended: {commands}")

    def end(self) -> None:
        """End the shell and all that it has started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@contextmanager
def shell(directory: Path, sample: str) -> Iterator[Shell]:
    """Run a shell in a copy of the sample clusters; with ``sample`` beside a daemon that follows it.

    A line of the daemon's configuration may follow the name of the sample.
    """
    work = directory / "examples"
    shutil.copytree(SAMPLES, work)
    environment = os.environ | {
        "PATH": f"{directory}/bin:{PROGRAMS}:{os.environ['PATH']}",
        "COLUMNS": "80",
        "LC_ALL": "C.UTF-8",
    }
    with ExitStack() as stack:
        stack.enter_context(tools(directory / "bin"))
        if sample:
            name, _, line = sample.partition(" ")
            cluster = text.parse((SAMPLES / name).read_text("utf-8"), name)
            served = directory / "d"
            served.mkdir()
            ganeti = stack.enter_context(simulator(served, cluster, "--job-seconds=0"))
            root = directory / "root/var/run/ganeti/socket"
            root.mkdir(parents=True)
            (root / "ganeti-query").symlink_to(ganeti.socket)
            daemon = stack.enter_context(running(served, config=f"config_seconds = 0.05\n{line}\n"))
            wait_until(lambda: daemon.status()["ledger"]["lag_s"] is not None)
            environment |= {"HTOOLSD_SOCKET": str(daemon.socket), "GANETI_ROOTDIR": str(directory / "root")}
        started = Shell(work, environment)
        try:
            yield started
        finally:
            started.end()


def complaint(words: Sequence[str]) -> str:
    """What one of our programs has against a command line, but for what is left out."""
    program, *arguments = words
    if program in TOOLS:
        reply = read(TOOLS[program], arguments)
        said = reply.text if isinstance(reply, Reply) and reply.status else ""
        return "" if "requires an argument" in said else said
    parsers = {
        "htoolsctl": htoolsctl.parser,
        "htoolsd": argument_parser,
        "htools-simulator": simulator_program.argument_parser,
    }
    with redirect_stderr(StringIO()) as said_of_it, suppress(SystemExit):
        parsers[program]().parse_known_args(arguments)
    return "" if "are required" in said_of_it.getvalue() else said_of_it.getvalue()


def matches(expected: str, printed: str) -> bool:
    """Whether a program printed what is expected; blanks at the end of lines and empty lines do not count."""
    wanted, got = map(_lines, (expected, printed))
    pattern = re.escape("\n".join(wanted)).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, "\n".join(got), re.DOTALL) is not None


def _lines(printed: str) -> list[str]:
    return [line.rstrip() for line in textwrap.dedent(printed).splitlines() if line.strip()]


def carry_out(started: Shell, block: Block, expected: str | None) -> str:
    """Run a block until it prints what is expected: a daemon may have to start or to follow first.

    Raises AssertionError with what was printed first.
    """
    first, begin = None, time.monotonic()
    while True:
        printed, status = started.run(block.script)
        first = printed if first is None else first
        good = status < 2 if expected is None else matches(expected, printed)
        if good:
            return printed
        assert time.monotonic() - begin < PATIENCE, f"{block.text}\nprints:\n{first}\nexpected:\n{expected}"
        time.sleep(0.5)


def write(path: Path) -> None:
    """Write what the examples of a document print into it, where that is not what it says."""
    document = path.read_text("utf-8")
    lines = document.splitlines()
    changed: list[tuple[Block, str]] = []
    for session in sessions(document):
        with tempfile.TemporaryDirectory() as name, shell(Path(name), session.sample) as started:
            printed = ""
            for block in session.blocks:
                if block.kind == "output":
                    if not matches(block.text, printed):
                        changed.append((block, printed))
                    continue
                printed, _ = started.run(block.script)
                if re.search(r"&$", block.text, re.MULTILINE):
                    time.sleep(10)
    for block, printed in reversed(changed):
        lines[block.first : block.last] = textwrap.indent("\n".join(_lines(printed)), "    ").splitlines()
    path.write_text("\n".join(lines) + "\n", "utf-8")


def main(arguments: Sequence[str]) -> None:
    """Write the output of the examples of documents."""
    for argument in arguments:
        write(Path(argument))


if __name__ == "__main__":
    main(sys.argv[1:])
