import grp
import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from ganeti_htools.cli import htoolsctl as program
from ganeti_htools.cli.ctl import commands
from ganeti_htools.client import methods, plan_changes
from tests.support.programs import PATIENCE, PROGRAMS, Daemon, Finished, hail, request_file, run


def htoolsctl(daemon: Daemon, *arguments: object, stdin: str = "") -> Finished:
    return run(
        PROGRAMS / "htoolsctl", *arguments, environment={"HTOOLSD_SOCKET": str(daemon.socket)}, stdin=stdin
    )


def test_status_for_people_is_short_and_names_what_matters(daemon: Daemon) -> None:
    shown = htoolsctl(daemon, "status")
    assert shown.returncode == 0
    attention, first, *rest = shown.stdout.splitlines()
    assert attention.startswith("ATTENTION  luxid cannot be asked: ")
    assert attention.endswith("; next: systemctl status ganeti-luxid")
    assert (first.split()[0], len(rest) <= 9) == ("htoolsd", True)
    for fact in (f"process {daemon.process.pid}", str(daemon.socket), "unreachable", "served", "MiB"):
        assert fact in shown.stdout


def test_status_for_programs_is_the_daemons_answer(daemon: Daemon) -> None:
    shown = json.loads(htoolsctl(daemon, "status", "--json").stdout)
    assert shown.keys() == daemon.status().keys()
    assert shown["pid"] == daemon.process.pid


def test_check_alarms_about_the_first_line_of_the_status(daemon: Daemon) -> None:
    shown = htoolsctl(daemon, "check", "-c", "age=30m")
    assert (shown.returncode, shown.stderr) == (2, "")
    assert re.fullmatch(r"HTOOLSD CRITICAL - luxid cannot be asked: .* \| age=U;;1800;0 .*\n", shown.stdout)
    document = json.loads(htoolsctl(daemon, "check", "--json").stdout)
    assert (document["state"], document["values"]["plans"]) == ("CRITICAL", 0)
    (attention,) = daemon.status()["attention"]
    assert document["reasons"] == [attention["text"]]


def test_lists_all_methods(daemon: Daemon) -> None:
    methods = json.loads(htoolsctl(daemon, "methods", "--json").stdout)
    names = (
        "allocations cancel candidates claim cluster decide execute explain follow forget history inventory"
        " load methods metrics notify plan plans policies providers refresh release report resume run"
        " set_inventory sizes status storage usage why witness"
    )
    assert [method["name"] for method in methods] == names.split()
    table = htoolsctl(daemon, "methods").stdout
    for method in methods:
        assert re.search(rf"^{method['name']} {method['version']} {method['role']} ", table, re.MULTILINE)
        assert all(f"  {argument} " in table for argument in method["arguments"])


def test_decide_relays_the_decision(daemon: Daemon, tmp_path: Path) -> None:
    request = request_file(tmp_path)
    options = ("--no-capacity-checks=", "--restrict-allocation-to=node1.example.org")
    for given in ((), options):
        expected = hail(request, *given)
        by_file = htoolsctl(daemon, "decide", request, "--json", *given)
        by_text = htoolsctl(daemon, "decide", "-", "--json", *given, stdin=request.read_text())
        for shown in (by_file, by_text):
            assert (shown.returncode, shown.stdout, shown.stderr) == (0, expected.stdout, "")


def test_decide_lists_the_groups(daemon: Daemon, tmp_path: Path) -> None:
    request = request_file(tmp_path)
    shown = htoolsctl(daemon, "decide", request, "--alternates=3")
    placed, info, header, row = shown.stdout.splitlines()
    answer = json.loads(hail(request).stdout)
    assert (shown.returncode, info, header.split()[0]) == (0, answer["info"], "Instance")
    assert all(node in row and node in placed for node in answer["result"])


def test_decide_relays_the_exit_status(daemon: Daemon) -> None:
    shown = htoolsctl(daemon, "decide", "-", stdin="{}")
    assert shown.returncode == 1
    assert shown.stdout == ""
    assert re.fullmatch("Error: .*\n", shown.stderr)


def test_refuses_a_request_that_is_not_text(daemon: Daemon) -> None:
    shown = run("sh", "-c", f"printf '{{\\377' | {PROGRAMS / 'htoolsctl'} --socket {daemon.socket} decide -")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr == "htoolsctl: standard input: byte 1 is no UTF-8\n"


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["refresh"], 1, r"htoolsctl: refused \(no-cluster\): configuration: .*No such file or directory"),
        (
            ["notify", "--test"],
            1,
            r"htoolsctl: refused \(bad-arguments\): notify: .* neither program nor url",
        ),
        (["decide", "/nowhere"], 1, "htoolsctl: /nowhere: No such file or directory"),
        (["decide", "/dev/null"], 1, r"htoolsctl: refused \(bad-file\): .*"),
        (["decide", "-", "--no-such-option=1"], 1, r"htoolsctl: refused \(bad-arguments\): .*"),
        (
            ["--socket", "/nowhere", "status"],
            1,
            r"htoolsctl: /nowhere: No such file.*; is htoolsd running\?$",
        ),
        (["status", "--colour"], 2, "htoolsctl status: error: unrecognized arguments: --colour"),
        (["guess"], 2, "htoolsctl: error: .*"),
        ([], 2, "usage: htoolsctl .*"),
    ],
)
def test_reports_errors_in_one_line(daemon: Daemon, arguments: list[str], status: int, line: str) -> None:
    shown = htoolsctl(daemon, *arguments)
    assert shown.returncode == status
    assert shown.stdout == ""
    assert re.fullmatch(line, shown.stderr.splitlines()[0])
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize("forbidden", ["socket", ""])
def test_explains_denied_access(tmp_path: Path, unprivileged: tuple[str, ...], forbidden: str) -> None:
    directory = tmp_path / "daemon"
    directory.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "socket"))
        listener.listen()
        (directory / forbidden).chmod(0)
        shown = run(*unprivileged, PROGRAMS / "htoolsctl", "--socket", directory / "socket", "status")
        directory.chmod(0o700)
    group = grp.getgrgid(os.getgid()).gr_name
    told = f"htoolsctl: {directory}/socket: Permission denied; members of the group {group} may\n"
    assert (shown.returncode, shown.stderr) == (1, told)


def test_ignores_a_log_reader_that_has_left(daemon: Daemon) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [str(PROGRAMS / "htoolsctl"), "--socket", str(daemon.socket), "methods"]
    shown = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=PATIENCE)
    os.close(writing)
    assert (shown.returncode, shown.stderr) == (1, b"")


@pytest.mark.parametrize(
    "command", [["status"], ["refresh"], ["plans"], ["decide", "-"], ["execute", "x"], ["plan", "x"]]
)
def test_executable_does_not_wait_for_a_stuck_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    for module in (commands, plan_changes):
        monkeypatch.setattr(module, "PATIENCE", 0.1)
    monkeypatch.setattr(methods.call, "__defaults__", (None, 0.1))
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.bind(str(tmp_path / "socket"))
        stuck.listen()
        assert program.main(["--socket", str(tmp_path / "socket"), *command]) == 1
    assert capsys.readouterr().err.endswith("no answer within 0.1 s\n")
