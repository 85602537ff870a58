import json
import os
import pty
import random
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from ganeti_htools.client.calls import CallRefusedError, ask
from tests.daemon.planning import result
from tests.support.programs import (
    EXECUTABLE,
    INTERPRETER,
    PATIENCE,
    PROGRAMS,
    Daemon,
    connect,
    executable,
    hail,
    run,
    running,
    small_cluster,
    wait_until,
)
from tests.support.simulators import simulator

pytestmark = pytest.mark.usefixtures("heeding")


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Daemon]:
    with running(tmp_path / "daemon", gated=True) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("daemon"), config="connections = 10") as daemon:
        yield daemon


def start(*command: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


def ask_for_decision(daemon: Daemon, request: Path) -> subprocess.Popen[str]:
    """The executable, with nobody to help it out."""
    surroundings = {"HTOOLSD_SOCKET": str(daemon.socket), "HTOOLSD_HAIL": "/bin/false"}
    return start(INTERPRETER, "-IS", EXECUTABLE, request, **surroundings)


# Starting


def test_second_daemon_refuses_to_start(daemon: Daemon, tmp_path: Path) -> None:
    same_place = ("--socket", daemon.socket, "--state-dir", daemon.state)
    same_socket = ("--socket", daemon.socket, "--state-dir", tmp_path)
    for place in (same_place, same_socket):
        second = run(PROGRAMS / "htoolsd", *place)
        assert second.returncode == 1
        assert re.fullmatch(r"htoolsd: already running: .*\n", second.stderr)
    assert daemon.status()["pid"] == daemon.process.pid


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["--config", "CONFIG"], 1, "htoolsd: CONFIG: unknown key 'colour'; .*"),
        (["--state-dir", "CONFIG/state"], 1, "htoolsd: CONFIG/state: Not a directory"),
        (["--socket", "CONFIG"], 1, "htoolsd: CONFIG: exists and is no socket"),
        (["--colour"], 2, "htoolsd: error: unrecognized arguments: --colour"),
    ],
)
def test_reports_start_errors_in_one_line(
    tmp_path: Path, arguments: list[str], status: int, line: str
) -> None:
    config = tmp_path / "config"
    config.write_text("colour = 1")
    place = ["--socket", str(tmp_path / "socket"), "--state-dir", str(tmp_path / "state")]
    chosen = [argument.replace("CONFIG", str(config)) for argument in arguments]
    finished = run(PROGRAMS / "htoolsd", *place, *chosen)
    assert finished.returncode == status
    assert re.fullmatch(line.replace("CONFIG", re.escape(str(config))), finished.stderr.splitlines()[-1])
    assert "Traceback" not in finished.stderr
    assert not (tmp_path / "socket").exists()


def test_help_and_version() -> None:
    version = run(PROGRAMS / "htoolsd", "--version")
    assert re.fullmatch(r"htoolsd \d+\.\d+.*, (commit \w+|files) of \d{4}-\d\d-\d\d\n", version.stdout)
    assert "\n  wait_seconds = 30.0 " in run(PROGRAMS / "htoolsd", "--help").stdout


def test_logs_key_value_pairs_at_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    place = ["--socket", str(tmp_path / "socket"), "--state-dir", str(tmp_path / "state")]
    process = subprocess.Popen([sys.executable, "-m", "htoolsd", *place], stderr=theirs)
    os.close(theirs)
    text = b""
    while b"ready" not in text:
        text += os.read(ours, 1000)
    process.terminate()
    assert process.wait(PATIENCE) == 0
    os.close(ours)
    assert b'"event"' not in text


# The configuration


def test_sighup_reloads_the_configuration(tmp_path: Path) -> None:
    with running(tmp_path / "daemon", config="connections = 1") as daemon:
        daemon.configure(f'connections = 2\ngroup = "other"\nsocket = "{tmp_path}/other"')
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: daemon.told("changed keys need a restart"))
        assert daemon.told("changed keys need a restart")[0]["keys"] == [
            "group"
        ]  # the command line has the socket
        with connect(daemon.socket):
            assert daemon.status()["connections"] == 2
        daemon.configure("connections = 0")
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: daemon.told("configuration not reloaded"))
        assert "connections: expected a whole number" in daemon.told("configuration not reloaded")[0]["error"]
        with connect(daemon.socket):
            assert daemon.status()["connections"] == 2
        assert daemon.stop() == 0


@pytest.mark.parametrize(
    ("text", "status", "line"),
    [
        ("connections = 3", 0, "CONFIG: no errors"),
        ("connections = 0", 1, "htoolsd: CONFIG: connections: expected .*"),
        ('group = "nobody-at-all"', 1, "htoolsd: there is no group 'nobody-at-all'"),
    ],
)
def test_checks_a_configuration_without_starting(tmp_path: Path, text: str, status: int, line: str) -> None:
    config = tmp_path / "config"
    config.write_text(f'state_dir = "{tmp_path}/state"\n{text}')
    finished = run(PROGRAMS / "htoolsd", "--config", config, "--check-config")
    assert finished.returncode == status
    assert re.fullmatch(
        line.replace("CONFIG", re.escape(str(config))) + "\n", finished.stdout + finished.stderr
    )
    assert not (tmp_path / "state").exists()


def check(config: Path, text: str) -> list[str]:
    """Return the lines that a check of the configuration prints, without the name of the file."""
    config.write_text(text)
    finished = run(PROGRAMS / "htoolsd", "--config", config, "--check-config")
    assert finished.returncode == (": no errors" not in finished.stdout)
    return finished.stderr.replace(f"{config}: ", "").replace("htoolsd: ", "").splitlines()


def test_check_lists_all_errors_and_warnings(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.touch()
    config.chmod(0o644)
    keys = 'connections = 0\ngroup = "nobody-at-all"\nledger = "postgresql://u:s@cret@h/d"\n'
    tables = "[squeeze]\nhold = 0\n[[pool]]\n[[pool]]\nkey = 5\n"
    assert [line.split(", with")[0] for line in check(config, keys + tables)] == [
        "connections: expected a whole number greater than 0",
        "ledger: expected postgresql://USER@HOST:PORT/DATABASE",
        "squeeze: hold: expected a whole number greater than 0",
        "pool 1: key 'type' not found, object contains only []",
        "pool 2: key 'type' not found, object contains only [key]",
        "there is no group 'nobody-at-all'",
    ]
    address = f"postgresql://u:secret@/d?host={tmp_path}"
    unreachable, readable = check(config, f'ledger = "{address}"')
    assert unreachable.startswith(f"warning: ledger: postgresql://u:***@/d?host={tmp_path}: connection ")
    assert readable == f"warning: other users can read the ledger's password; chmod o-r {config}"
    config.chmod(0o640)
    (impossible,) = check(config, f'ledger = "{address}&nosuch=5"')
    assert impossible == 'ledger: invalid connection option "nosuch"'
    (absent,) = check(config, '[notify]\nprogram = "/nonexistent/alarm"')
    assert absent == "warning: notify: /nonexistent/alarm: expected a program that can be executed"
    (unread,) = check(config, '[http]\nlisten = "127.0.0.1:9719"\ntoken_file = "/nowhere"')
    assert unread.startswith("http: token_file: /nowhere: No such file")


# Who is master


def become(daemon: Daemon, name: bytes) -> None:
    """Somebody is the master now."""
    path = daemon.socket.parent / "ssconf_master_node"
    path.with_suffix(".new").write_bytes(name)
    path.with_suffix(".new").rename(path)


def warned(daemon: Daemon, times: int) -> bool:
    return len(daemon.told("master node cannot be determined")) == times


OFTEN = "config_seconds = 0.05"
HERE, ELSEWHERE = {"GANETI_HOSTNAME": "node1"}, b"node2"
PLACES = {"ssconf_dir": "", "socket": "socket", "state_dir": "state"}


def test_follows_the_master_role(tmp_path: Path, request_path: Path) -> None:
    (tmp_path / "daemon").mkdir()
    (tmp_path / "daemon" / "ssconf_master_node").write_bytes(ELSEWHERE)
    with running(tmp_path / "daemon", config=OFTEN, options=["--stay"], environment=HERE) as daemon:
        for time in (1, 2):
            wait_until(lambda: daemon.status()["cluster"]["master"] is False)
            finished = executable(daemon.socket, request_path)
            assert "refused (no-cluster): this is not the master node; deciding without" in finished.stderr
            assert finished.stdout == hail(request_path).stdout
            become(daemon, b"node1")
            assert executable(daemon.socket, request_path).stderr == ""  # at once
            wait_until(lambda: daemon.status()["cluster"]["master"] is True)
            become(daemon, b"\xff\xfe")
            wait_until(partial(warned, daemon, time))
            assert daemon.status()["cluster"]["master"] is True
            assert executable(daemon.socket, request_path).stderr == ""
            become(daemon, ELSEWHERE)
        assert daemon.stop() == 0


def test_decides_when_the_master_is_unknown(tmp_path: Path, request_path: Path) -> None:
    (tmp_path / "daemon").mkdir()
    (tmp_path / "daemon" / "ssconf_master_node").write_bytes(b"\xff")
    with running(tmp_path / "daemon", config=OFTEN, environment=HERE) as daemon:
        assert executable(daemon.socket, request_path).stderr == ""
        wait_until(lambda: daemon.status()["luxi"]["state"] == "not asked")
        assert daemon.status()["cluster"]["master"] is None


def test_ends_on_another_node_without_stay(tmp_path: Path) -> None:
    (tmp_path / "ssconf_master_node").write_bytes(ELSEWHERE)
    place = "".join(f'{key} = "{tmp_path}/{name}"\n' for key, name in PLACES.items())
    (tmp_path / "config").write_text(place)
    finished = run(PROGRAMS / "htoolsd", "--config", tmp_path / "config", environment=HERE)
    assert (finished.returncode, finished.stderr) == (11, "htoolsd: not the master node; that is node2\n")
    assert sorted(os.listdir(tmp_path)) == ["config", "ssconf_master_node"]


# The service manager


def test_service_manager_is_told_and_watchdog_is_fed(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(PATIENCE)
        manager.bind(str(tmp_path / "notify"))

        def hears(line: bytes) -> set[bytes]:
            """Wait for a line: what is told until then."""
            told: set[bytes] = set()
            while line not in told:
                told |= {*manager.recv(1000).splitlines()}
            return told

        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"}
        (tmp_path / "daemon").mkdir()
        with (
            simulator(tmp_path / "daemon", small_cluster()),
            running(tmp_path / "daemon", config=OFTEN, environment=environment) as daemon,
        ):
            assert hears(b"READY=1") <= {b"READY=1", b"WATCHDOG=1"}
            hears(b"STATUS=5 nodes, 50 instances")
            for _ in range(3):
                hears(b"WATCHDOG=1")
            daemon.signal(signal.SIGHUP)
            hears(b"RELOADING=1")
            hears(b"READY=1")
            daemon.signal()
            hears(b"STOPPING=1")
            assert daemon.wait() == 0


# Serving


def test_status_is_answered_while_a_decision_keeps_the_interpreter_busy(
    tmp_path: Path, request_path: Path
) -> None:
    busy = {"HTOOLSD_TEST_BUSY": "yes"}
    with running(tmp_path / "daemon", gated=True, environment=busy) as gated:
        deciding = ask_for_decision(gated, request_path)
        gated.wait_begun()
        waiting = ask_for_decision(gated, request_path)
        wait_until(lambda: gated.status()["decisions"]["waiting"] == 1)
        assert gated.status()["decisions"]["running"] == 1
        assert gated.status()["decisions"]["running_ms"] > 0
        assert deciding.poll() is None
        gated.gate.touch()
        expected = (0, hail(request_path).stdout, "")
        assert [result(deciding), result(waiting)] == [expected, expected]
        assert gated.status()["decisions"]["running"] == 0


def test_gives_up_a_decision_that_hangs(tmp_path: Path, request_path: Path) -> None:
    with running(tmp_path / "daemon", gated=True, config="decision_seconds = 0.2") as gated:
        finished = executable(gated.socket, request_path)
        assert "refused (internal): the decision took longer than 0.2 s; deciding without" in finished.stderr
        assert finished.stdout == hail(request_path).stdout
        assert (gated.status()["decisions"]["given_up"], gated.status()["decisions"]["lost"]) == (1, 1)
        assert [event["level"] for event in gated.told("decision given up")] == ["error"]
        gated.gate.touch()
        wait_until(lambda: gated.status()["decisions"]["lost"] == 0)
        gated.configure("decision_seconds = 60")
        gated.signal(signal.SIGHUP)
        wait_until(lambda: gated.told("configuration reloaded"))
        assert executable(gated.socket, request_path).stderr == ""


# Misbehaving clients


CALL = b'{"method":"decide","version":1,"args":{}}\x03'


def leaves_at_once(path: Path, _request: Path) -> None:
    connect(path).close()


def passes(path: Path, file: Path, message: bytes = CALL, count: int = 1, answer: bytes = b"") -> None:
    """Passes a file with a message, and leaves before the answer unless that has something to be heard."""
    with connect(path) as client:
        descriptor = os.open(file, os.O_RDONLY)
        socket.send_fds(client, [message], [descriptor] * count)
        os.close(descriptor)
        assert not answer or answer in client.recv(10000)


def passes_files_bit_by_bit(path: Path, request: Path) -> None:
    with connect(path) as client, request.open() as file, suppress(OSError):
        for _ in range(50):
            socket.send_fds(client, [b" "], [file.fileno()])


def passes_a_pipe(path: Path, _request: Path) -> None:
    with connect(path) as client:
        ends = os.pipe()
        socket.send_fds(client, [CALL], [ends[0]])
        assert b"bad-file" in client.recv(1000)
        for end in ends:
            os.close(end)


def passes_no_file(path: Path, _request: Path) -> None:
    with pytest.raises(CallRefusedError, match="either a passed file"):
        ask(str(path), "decide", {})


def behaves(path: Path, request: Path) -> None:
    with request.open() as file:
        ask(str(path), "decide", {}, file.fileno())


CLIENTS: list[Callable[[Path, Path], None]] = [
    leaves_at_once,
    passes,
    partial(passes, message=CALL[:10]),
    partial(passes, count=50, answer=b"bad-file"),
    partial(passes, message=CALL.replace(b"decide", b"status"), answer=b"uptime"),
    lambda path, request: passes(path, request.parent, answer=b"bad-file"),
    passes_files_bit_by_bit,
    passes_a_pipe,
    passes_no_file,
    behaves,
]


def assert_settled(daemon: Daemon, descriptors: Counter[str]) -> None:
    """Nobody else is connected and nothing was left open."""
    wait_until(lambda: daemon.status()["connections"] == 1 and daemon.status()["decisions"]["running"] == 0)
    with suppress(AssertionError):
        wait_until(lambda: daemon.descriptors() <= descriptors)
    assert not daemon.descriptors() - descriptors


def test_closes_files_of_all_clients(daemon: Daemon, request_path: Path) -> None:
    behaves(daemon.socket, request_path)  # starts the worker thread
    wait_until(lambda: daemon.status()["connections"] == 1)
    before = daemon.descriptors()
    order = CLIENTS * 10
    random.Random(4).shuffle(order)
    for client in order:
        client(daemon.socket, request_path)
    assert_settled(daemon, before)
    assert executable(daemon.socket, request_path).stderr == ""


@pytest.mark.parametrize("seed", range(5))
def test_survives_arbitrary_bytes(daemon: Daemon, request_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    before = daemon.descriptors()
    for _ in range(40):
        noise = bytearray(rng.choice([b"", CALL, CALL.replace(b"decide", b"status")]))
        for _ in range(rng.randrange(1, 20)):
            place = rng.randrange(len(noise) + 1)
            noise[place:place] = rng.choice([b"\x03", b"{", b'"', rng.randbytes(rng.randrange(1, 300))])
        with connect(daemon.socket) as client:
            try:
                client.sendall(noise)
                client.shutdown(socket.SHUT_WR)
                answers = b"".join(iter(lambda: client.recv(10000), b""))  # used at once
            except (BrokenPipeError, ConnectionResetError):
                continue
        for answer in answers.split(b"\x03")[:-1]:
            assert json.loads(answer).keys() == {"success", "result"}
    assert_settled(daemon, before)
    events = {event["event"] for event in daemon.events()}
    assert not events & {"call failed", "task failed"}
    assert executable(daemon.socket, request_path).stderr == ""


# Stopping


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stops_at_sigterm(tmp_path: Path, number: int) -> None:
    with running(tmp_path / "daemon") as daemon, connect(daemon.socket) as idle:
        daemon.status()
        daemon.signal(number)
        assert b'"stopping"' in idle.recv(1000)
        assert idle.recv(1) == b""
        assert daemon.wait() == 0
        assert not daemon.socket.exists()
        events = [event["event"] for event in daemon.events()]
        assert events[-1] == "stopped"
        assert [event for event in events if event in ("stopping", "refused")] == ["stopping", "refused"]


def test_stop_finishes_the_running_decision_only(gated: Daemon, request_path: Path) -> None:
    expected = hail(request_path).stdout
    deciding = ask_for_decision(gated, request_path)
    gated.wait_begun()
    surroundings = {"HTOOLSD_SOCKET": str(gated.socket), "HTOOLSD_HAIL": str(PROGRAMS / "hail")}
    waiting = start(INTERPRETER, "-IS", EXECUTABLE, request_path, **surroundings)
    wait_until(lambda: gated.status()["decisions"]["waiting"] == 1)
    gated.signal()
    status, decided, reason = result(waiting)
    assert (status, decided) == (0, expected)
    assert reason.endswith("No such file or directory; deciding without the daemon and its claims\n")
    assert "stopping" in [event.get("error") for event in gated.events()]
    assert not gated.socket.exists()
    assert deciding.poll() is None
    gated.gate.touch()
    assert result(deciding) == (0, expected, "")
    assert gated.wait() == 0


@pytest.mark.parametrize("impatient", [True, False])
def test_stop_is_limited(tmp_path: Path, request_path: Path, impatient: bool) -> None:
    config = "stop_seconds = 1000" if impatient else "stop_seconds = 0.1"
    with running(tmp_path / "daemon", gated=True, config=config) as gated:
        deciding = ask_for_decision(gated, request_path)
        gated.wait_begun()
        gated.signal()
        if impatient:
            wait_until(lambda: not gated.socket.exists())
            gated.signal()
        assert gated.wait() == 0
        assert gated.events()[-1]["unfinished"] is True
        assert result(deciding)[0] != 0
