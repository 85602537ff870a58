import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from htoolsd import marks
from tests.support.clusters import Shape, cluster
from tests.support.messages import (
    allocate,
    allocate_secondary,
    change_group,
    encode,
    message,
    multi_allocate,
    node_evacuate,
    relocate,
)
from tests.support.programs import (
    EXECUTABLE,
    FALLBACK,
    INTERPRETER,
    PATIENCE,
    Daemon,
    Finished,
    altered_executable,
    executable,
    hail,
    run,
    running,
    script,
    stale,
)

Behaviour = Callable[[socket.socket], None]


def messages() -> dict[str, bytes]:
    """One request of each kind, and some that are none."""
    data = cluster(2, Shape(nodes=6, instances=20, groups=2))
    plain = next(name for name, row in data["instances"].items() if row["disk_template"] == "plain")
    drbd = next(name for name, row in data["instances"].items() if row["disk_template"] == "drbd")
    node = data["instances"][drbd]["nodes"][0]
    requests = {
        "allocate": allocate("new.example.org"),
        "too big": allocate("new.example.org", memory=10**6),
        "multi-allocate": multi_allocate([allocate("a.example.org"), allocate("b.example.org", "plain")]),
        "relocate": relocate(data, drbd),
        "node-evacuate": node_evacuate(data, node, "all"),
        "change-group": change_group([drbd]),
        "allocate-secondary": allocate_secondary(plain),
        "unknown type": {"type": "guess"},
    }
    texts = {name: encode(message(data, request)).encode() for name, request in requests.items()}
    return texts | {
        "empty": b"",
        "truncated": texts["allocate"][:-100],
        "no request": b"{}",
        "text": b"hello\n",
        "binary": bytes(range(256)),
    }


@pytest.mark.parametrize(("name", "text"), messages().items(), ids=list(messages()))
def test_the_daemon_answers_as_the_one_shot_program_does(
    daemon: Daemon, tmp_path: Path, name: str, text: bytes
) -> None:
    request = tmp_path / name
    request.write_bytes(text)
    before = answered(daemon)
    ours, expected = executable(daemon.socket, request), hail(request)
    assert (ours.returncode, ours.stdout, ours.stderr) == (
        expected.returncode,
        expected.stdout,
        expected.stderr,
    )
    assert answered(daemon) == before + 1


def answered(daemon: Daemon) -> int:
    """How many requests the daemon has answered, whatever it said."""
    decisions = daemon.status()["decisions"]
    return sum(int(decisions[name]) for name in ("served", "unsatisfied", "failed"))


def test_arguments_behind_the_file_reach_the_decision(daemon: Daemon, request_path: Path) -> None:
    unrestricted = executable(daemon.socket, request_path)
    arguments = (
        "--no-capacity-checks=",
        "--restrict-allocation-to=node1.example.org",
        "--htoolsd-timeout=20",
    )
    restricted = executable(daemon.socket, request_path, *arguments)
    assert restricted.stderr == unrestricted.stderr == ""
    assert restricted.stdout != unrestricted.stdout
    assert restricted.stdout == hail(request_path, *arguments[:2]).stdout


def test_many_at_once_all_get_their_answer(daemon: Daemon, request_path: Path) -> None:
    expected = hail(request_path).stdout
    environment = os.environ | {"HTOOLSD_SOCKET": str(daemon.socket), "HTOOLSD_HAIL": "/bin/false"}
    burst = [
        subprocess.Popen(
            [INTERPRETER, "-IS", EXECUTABLE, request_path], stdout=subprocess.PIPE, env=environment, text=True
        )
        for _ in range(20)
    ]
    assert [process.communicate(timeout=PATIENCE)[0] for process in burst] == [expected] * 20


def test_it_can_be_run_and_names_an_isolated_interpreter() -> None:
    assert os.access(EXECUTABLE, os.X_OK)
    assert EXECUTABLE.read_text().startswith("#!/usr/bin/python3 -IS\n")


def test_it_knows_the_daemons_default_socket() -> None:
    from ganeti_htools.client.protocol import DEFAULT_SOCKET

    assert f'DEFAULT_SOCKET = "{DEFAULT_SOCKET}"' in EXECUTABLE.read_text()


def test_it_starts_without_the_modules_that_take_long() -> None:
    script = "import sys; exec(open(sys.argv[1]).read(), {'__name__': 'imported'}); print(*sys.modules)"
    imported = run(INTERPRETER, "-IS", "-c", script, EXECUTABLE).stdout.split()
    assert "_socket" in imported
    assert not {"json", "socket", "subprocess", "argparse", "re", "typing", "os"} & set(imported)


# What can go wrong. Each time the answer is the one-shot program's, after one line that says why.


def assert_decided_alone(finished: Finished, reason: str, request: Path | None = None, *options: str) -> None:
    expected = hail(request, *options)
    why, *rest = finished.stderr.splitlines(keepends=True)
    assert reason in why
    assert why.startswith("htoolsd: ")
    assert why.endswith("; deciding without the daemon and its claims\n")
    assert (finished.returncode, finished.stdout, "".join(rest)) == (
        expected.returncode,
        expected.stdout,
        expected.stderr,
    )


def assert_left_to_hail(finished: Finished, reason: str, *arguments: object) -> None:
    """The executable, whose fallback is echo, has run the fallback with these arguments."""
    assert (finished.returncode, finished.stdout) == (0, " ".join(map(str, arguments)) + "\n")
    assert re.fullmatch(
        f"htoolsd: .*{re.escape(reason)}.*; deciding without the daemon and its claims\n", finished.stderr
    )


def test_decision_without_the_daemon_names_what_it_does_not_know(tmp_path: Path, request_path: Path) -> None:
    gone = str(tmp_path / "gone.sock")
    both = ", and without inventories that are in no tag, and without measured load"
    for present, more in ((True, both), (False, "")):
        marks.show(gone, marks.UNTAGGED, present)
        marks.show(gone, marks.LOADED, present)
        finished = executable(Path(gone), request_path, "--htoolsd-timeout=0.4", fallback="/bin/echo")
        assert finished.stderr.endswith(f"; deciding without the daemon and its claims{more}\n")


@pytest.fixture
def liar(tmp_path: Path) -> Iterator[Callable[[Behaviour], Path]]:
    """Makes a socket whose clients meet with ``behaviour``, one after the other."""
    path = tmp_path / "liar"
    clients = []
    with socket.socket(socket.AF_UNIX) as listening:

        def serve(behaviour: Behaviour) -> None:
            with suppress(OSError):
                while True:
                    clients.append(listening.accept()[0])
                    with suppress(OSError):
                        behaviour(clients[-1])

        def start(behaviour: Behaviour) -> Path:
            listening.bind(str(path))
            listening.listen()
            threads.submit(serve, behaviour)
            return path

        with ThreadPoolExecutor() as threads:
            yield start
            listening.shutdown(socket.SHUT_RDWR)
    for client in clients:
        client.close()


def read_call(client: socket.socket) -> None:
    _, files, _, _ = socket.recv_fds(client, 65536, 4)
    for file in files:
        os.close(file)


def answering(answer: bytes) -> Behaviour:
    """Reads the call, sends ``answer`` and hangs up."""

    def behave(client: socket.socket) -> None:
        read_call(client)
        client.sendall(answer)
        client.shutdown(socket.SHUT_RDWR)

    return behave


RESULT = b'{"success":true,"result":{"stdout":"no\\n","stderr":"","exit_status":0}}'


@pytest.mark.parametrize("answer", [b"", RESULT[:30], RESULT], ids=["none", "some", "no end byte"])
def test_half_an_answer(liar: Callable[[Behaviour], Path], request_path: Path, answer: bytes) -> None:
    finished = executable(liar(answering(answer)), request_path)
    reason = "closed inside an answer" if answer else "closed without an answer"
    assert_decided_alone(finished, reason, request_path)


GARBAGE = {
    "nothing": b"",
    "binary": bytes(byte for byte in range(256) if byte != 3),
    "text": b"hello",
    "nested": b"[" * 100000,
    "list": b"[]",
    "empty object": b"{}",
    "not UTF-8": b'"\xff"',
    "more behind it": RESULT + b" {}",
    "number as text": RESULT.replace(b'"no\\n"', b"7"),
    "true for a status": RESULT.replace(b"0}", b"true}"),
    "half a character": RESULT.replace(b"no", b"\\ud800"),
    "half a character in warnings": RESULT.replace(b'""', b'"\\udc80"'),
    "no decision": RESULT.replace(b"no\\n", b""),
    "endless status": RESULT.replace(b"0}", b"1" * 10000 + b"}"),
    "big status": RESULT.replace(b"0}", b"256}"),
    "negative status": RESULT.replace(b"0}", b"-1}"),
    "refusal like a result": RESULT.replace(b"true", b"false"),
}


@pytest.mark.parametrize("answer", GARBAGE.values(), ids=GARBAGE)
def test_garbage(liar: Callable[[Behaviour], Path], answer: bytes) -> None:
    finished = executable(liar(answering(answer + b"\x03")), EXECUTABLE, "--a=b", fallback="/bin/echo")
    assert_left_to_hail(finished, "the answer makes no sense", EXECUTABLE, "--a=b")


def test_an_answer_without_end(liar: Callable[[Behaviour], Path]) -> None:
    def behave(client: socket.socket) -> None:
        read_call(client)
        while True:
            client.sendall(b" " * (1 << 20))

    finished = executable(liar(behave), EXECUTABLE, "--htoolsd-timeout=60", fallback="/bin/echo")
    assert_left_to_hail(finished, "the answer makes no sense", EXECUTABLE)


def test_a_refusal_in_half_characters(liar: Callable[[Behaviour], Path]) -> None:
    answer = b'{"success":false,"result":{"error":"\\ud800","message":"a\\u001b[2Jb\\udfff"}}\x03'
    finished = executable(liar(answering(answer)), EXECUTABLE, fallback="/bin/echo")
    assert_left_to_hail(finished, "refused (?): a?[2Jb?", EXECUTABLE)


def test_a_refusal_is_quoted_on_one_line(liar: Callable[[Behaviour], Path], request_path: Path) -> None:
    answer = b'{"success":false,"result":{"error":"wrong-version","message":"version:\\nexpected 2"}}\x03'
    finished = executable(liar(answering(answer)), request_path)
    assert_decided_alone(finished, "refused (wrong-version): version: expected 2", request_path)


def test_a_peer_that_hangs_up_at_once(liar: Callable[[Behaviour], Path], request_path: Path) -> None:
    path = liar(lambda client: client.shutdown(socket.SHUT_RDWR))
    assert_decided_alone(executable(path, request_path), "liar: ", request_path)


@pytest.mark.parametrize("beginning", [b"", RESULT])
def test_a_peer_that_never_finishes_its_answer(
    liar: Callable[[Behaviour], Path], request_path: Path, beginning: bytes
) -> None:
    def behave(client: socket.socket) -> None:
        read_call(client)
        client.sendall(beginning)

    finished = executable(liar(behave), request_path, "--htoolsd-timeout=0.2")
    assert_decided_alone(finished, "no answer within 0.2 s", request_path)


def test_the_environment_may_set_the_timeout(liar: Callable[[Behaviour], Path], request_path: Path) -> None:
    environment = {
        "HTOOLSD_SOCKET": str(liar(read_call)),
        "HTOOLSD_HAIL": "/bin/echo",
        "HTOOLSD_TIMEOUT": "0.2",
    }
    finished = run(INTERPRETER, "-IS", EXECUTABLE, request_path, environment=environment)
    assert_left_to_hail(finished, "no answer within 0.2 s", request_path)


def test_bytes_now_and_then_do_not_buy_time(liar: Callable[[Behaviour], Path], request_path: Path) -> None:
    def behave(client: socket.socket) -> None:
        read_call(client)
        while True:
            client.sendall(b" ")
            time.sleep(0.05)

    finished = executable(liar(behave), request_path, "--htoolsd-timeout=0.3")
    assert_decided_alone(finished, "no answer within 0.3 s", request_path)


def test_no_socket(tmp_path: Path, request_path: Path) -> None:
    finished = executable(tmp_path / "no" / "thing", request_path)
    assert_decided_alone(finished, "no/thing: No such file or directory", request_path)


def test_a_stale_socket(tmp_path: Path, request_path: Path) -> None:
    finished = executable(stale(tmp_path / "stale", age=60), request_path)
    assert_decided_alone(finished, "stale: Connection refused", request_path)


def test_a_socket_that_takes_nobody(tmp_path: Path, request_path: Path) -> None:
    path = tmp_path / "crowded"
    with socket.socket(socket.AF_UNIX) as crowded, socket.socket(socket.AF_UNIX) as waiting:
        crowded.bind(str(path))
        crowded.listen(0)
        waiting.connect(str(path))
        finished = executable(path, request_path, "--htoolsd-timeout=0.3")
    assert_decided_alone(finished, "crowded: Resource temporarily unavailable", request_path)


def test_a_socket_that_may_not_be_used(
    tmp_path: Path, request_path: Path, unprivileged: tuple[str, ...]
) -> None:
    with socket.socket(socket.AF_UNIX) as forbidden:
        forbidden.bind(str(tmp_path / "forbidden"))
        forbidden.listen()
        (tmp_path / "forbidden").chmod(0)
        finished = executable(tmp_path / "forbidden", request_path, prefix=unprivileged)
    assert_decided_alone(finished, "forbidden: Permission denied", request_path)


def test_a_daemon_of_another_version(daemon: Daemon, tmp_path: Path, request_path: Path) -> None:
    newer = altered_executable(tmp_path, "PROTOCOL = 1\n", "PROTOCOL = 2\n")
    finished = executable(daemon.socket, request_path, program=newer)
    assert_decided_alone(
        finished, "refused (wrong-version): version: expected 1, got 2; the daemon is older", request_path
    )


def test_a_defect_in_the_daemon(tmp_path: Path) -> None:
    request = tmp_path / "request"
    request.write_text("crash")
    with running(tmp_path / "daemon", gated=True) as gated:
        finished = executable(gated.socket, request)
        assert_decided_alone(finished, "refused (internal): ZeroDivisionError: a defect;", request)
        (failure,) = (event for event in gated.events() if event["event"] == "call failed")
        assert "Traceback" in failure["exception"]
        assert gated.status()["decisions"]["broken"] == 1


def test_a_daemon_with_too_much_to_do(tmp_path: Path, request_path: Path) -> None:
    with (
        running(tmp_path / "daemon", gated=True, config="wait_seconds = 0.1") as gated,
        subprocess.Popen(
            [INTERPRETER, "-IS", EXECUTABLE, request_path],
            env=os.environ | {"HTOOLSD_SOCKET": str(gated.socket), "HTOOLSD_HAIL": "/bin/false"},
            stdout=subprocess.PIPE,
            text=True,
        ) as first,
    ):
        gated.wait_begun()
        finished = executable(gated.socket, request_path, "--htoolsd-timeout=2")
        busy = "refused (busy): no turn within 0.1 s: other decisions take too long"
        assert_decided_alone(finished, busy, request_path)
        gated.gate.touch()
        assert first.communicate(timeout=PATIENCE)[0] == finished.stdout


def test_an_option_that_the_daemon_does_not_serve(daemon: Daemon, request_path: Path) -> None:
    finished = executable(daemon.socket, request_path, "--no-such-option=1")
    assert_decided_alone(finished, "refused (bad-arguments): ", request_path, "--no-such-option=1")
    assert finished.returncode == 2


@pytest.mark.parametrize("value", ["soon", "0", "-1", "nan", "inf"])
def test_a_timeout_that_is_none(daemon: Daemon, value: str) -> None:
    finished = executable(
        daemon.socket, EXECUTABLE, f"--htoolsd-timeout={value}", "--a=b", fallback="/bin/echo"
    )
    assert_left_to_hail(finished, f"timeout '{value}': expected a number", EXECUTABLE, "--a=b")


def test_a_request_that_is_not_there(daemon: Daemon, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert_decided_alone(executable(daemon.socket, missing), f"{missing}: No such file", missing)


def test_no_request_at_all(daemon: Daemon) -> None:
    assert_decided_alone(executable(daemon.socket), "no request file given")


def test_a_pipe_is_left_to_the_program_that_can_read_it(daemon: Daemon, request_path: Path) -> None:
    os.mkfifo(pipe := request_path.with_name("pipe"))
    with subprocess.Popen(["sh", "-c", 'cat "$0" > "$1"', request_path, pipe]):
        finished = executable(daemon.socket, pipe)
    assert_decided_alone(finished, f"{pipe}: not a regular file", request_path)


@pytest.mark.parametrize("most", [4, 5, 6])
def test_no_files_to_open(request_path: Path, tmp_path: Path, most: int) -> None:
    prefix = "sh", "-c", f'ulimit -n {most}; exec "$0" "$@"'
    path = stale(tmp_path / "stale", age=60)
    finished = executable(path, request_path, prefix=prefix, fallback="/bin/echo")
    assert (finished.returncode, finished.stdout) == (0, f"{request_path}\n")


def test_nobody_to_read_the_reason(request_path: Path, tmp_path: Path) -> None:
    open_files = script(tmp_path / "open-files", "#!/bin/sh\nreadlink /proc/$$/fd/2 || echo closed\n")
    closed = run(
        *("sh", "-c", '"$0" -IS "$1" --htoolsd-timeout=0 "$2" 2>&-', INTERPRETER, EXECUTABLE, request_path),
        environment={"HTOOLSD_SOCKET": str(tmp_path / "no" / "thing"), "HTOOLSD_HAIL": str(open_files)},
    )
    assert (closed.returncode, closed.stdout) == (0, "closed\n")


@pytest.mark.parametrize(
    ("closed", "status", "stderr"),
    [
        ("<&- >&- 2>&-", 1, ""),
        (">&-", 1, "htoolsd: standard output is closed; nothing is decided\n"),
        ("<&- 2>&-", 0, ""),
    ],
)
def test_decides_nothing_when_standard_output_is_closed(
    daemon: Daemon, request_path: Path, closed: str, status: int, stderr: str
) -> None:
    served = daemon.status()["decisions"]["served"]
    ended = run(
        *("sh", "-c", f'"$0" -IS "$1" "$2" {closed}', INTERPRETER, EXECUTABLE, request_path),
        environment={"HTOOLSD_SOCKET": str(daemon.socket)},
    )
    assert (ended.returncode, ended.stderr, bool(ended.stdout)) == (status, stderr, status == 0)
    assert daemon.status()["decisions"]["served"] == served + (status == 0)


def test_no_program_to_decide_with(tmp_path: Path, request_path: Path) -> None:
    without = altered_executable(tmp_path, '"/usr/bin/python3"', '"/no/python"')
    finished = executable(tmp_path / "no" / "thing", request_path, program=without, fallback="/no/hail")
    assert finished.returncode == 1
    assert finished.stdout == ""
    assert finished.stderr.splitlines()[1:] == [
        f"htoolsd: {name}: No such file or directory" for name in ("/no/hail", "/no/python")
    ]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The executable, where it finds a hail."""
    checkout = tmp_path / "checkout"
    for directory in (checkout / "iallocator", checkout / ".venv" / "bin"):
        directory.mkdir(parents=True)
    script(checkout / ".venv" / "bin" / "hail", '#!/bin/sh\necho "hail $*"\nexit 7\n')
    shutil.copy(FALLBACK, checkout / "iallocator")
    return Path(shutil.copy(EXECUTABLE, checkout / "iallocator"))


def test_link_finds_module_and_hail_of_checkout(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(checkout)
    finished = executable(tmp_path / "no" / "thing", "FILE", "--a=b", program=tmp_path / "link", fallback="")
    assert (finished.returncode, finished.stdout) == (7, "hail FILE --a=b\n")


def cached(checkout: Path) -> Path:
    """The bytecode of the module, as the interpreter has cached it."""
    (path,) = (checkout.parent / "__pycache__").iterdir()
    return path


def test_bytecode_of_fallback_is_compiled_once(checkout: Path, tmp_path: Path) -> None:
    executable(tmp_path / "no" / "thing", program=checkout)
    compiled = cached(checkout).stat()
    finished = executable(tmp_path / "no" / "thing", "FILE", program=checkout, fallback="")
    assert (finished.returncode, finished.stdout) == (7, "hail FILE\n")
    again = cached(checkout).stat()
    assert (again.st_ino, again.st_mtime_ns) == (compiled.st_ino, compiled.st_mtime_ns)


@pytest.mark.parametrize("length", [0, 16, 20, 500])
def test_truncated_bytecode_does_not_prevent_decisions(checkout: Path, tmp_path: Path, length: int) -> None:
    executable(tmp_path / "no" / "thing", program=checkout)
    cached(checkout).write_bytes(cached(checkout).read_bytes()[:length])
    finished = executable(tmp_path / "no" / "thing", "FILE", program=checkout, fallback="")
    assert (finished.returncode, finished.stdout) == (7, "hail FILE\n")


def test_missing_fallback_is_one_line(checkout: Path, tmp_path: Path) -> None:
    checkout.with_name(FALLBACK.name).unlink()
    finished = executable(tmp_path / "no" / "thing", "FILE", program=checkout)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr == (
        "htoolsd: No module named 'htoolsd_fallback'; expected it beside this program\n"
    )


def test_ganeti_does_not_take_fallback_for_a_program() -> None:
    assert not os.access(FALLBACK, os.X_OK)


WRONG = {
    "a directory": lambda path: path.mkdir(),
    "not there": lambda path: None,
    "not executable": lambda path: path.write_text("#!/bin/sh\n"),
    "no program": lambda path: script(path, "hello\n"),
    "interpreter not there": lambda path: script(path, "#!/no/python\n"),
    "dangling": lambda path: path.symlink_to("nowhere"),
    "a socket": lambda path: stale(path, 0),
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_a_wrong_program_to_decide_with(
    checkout: Path, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(wrong := tmp_path / "wrong")
    finished = executable(tmp_path / "no" / "thing", "FILE", program=checkout, fallback=wrong)
    assert (finished.returncode, finished.stdout) == (7, "hail FILE\n")
    assert finished.stderr.splitlines()[1].startswith(f"htoolsd: {wrong}: ")


def test_the_executable_is_not_the_program_that_decides(checkout: Path, tmp_path: Path) -> None:
    missing = tmp_path / "no" / "thing"
    finished = executable(missing, "FILE", program=checkout, fallback=checkout, HTOOLSD_TIMEOUT="1")
    assert (finished.returncode, finished.stdout) == (7, "hail FILE\n")


def test_somebody_elses_python_does_not_concern_hail(tmp_path: Path, request_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit(9)")
    finished = executable(
        tmp_path / "no" / "thing",
        request_path,
        PYTHONPATH=str(tmp_path),
        PYTHONHOME=str(tmp_path),
        PYTHONSTARTUP="/no/thing",
        PYTHONWARNINGS="error",
    )
    assert_decided_alone(finished, "No such file", request_path)
