"""Debian's hail beside the daemon: who answers Ganeti, what is claimed, and what the comparison finds."""

import json
import os
import stat
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.test_claims import full_after
from tests.support.clusters import Shape, cluster
from tests.support.messages import allocate, encode, message, multi_allocate, node_evacuate, relocate
from tests.support.oracle import Oracle
from tests.support.programs import PROGRAMS, Daemon, executable, hail, request_file, run, running, wait_until

ALWAYS = 'claims = "always"\n'


def witness(program: Path | str, answers: str, **more: object) -> str:
    keys = "".join(f"{key} = {value}\n" for key, value in more.items())
    return f'{ALWAYS}[witness]\nprogram = "{program}"\nanswers = "{answers}"\n{keys}'


def script(directory: Path, body: str) -> Path:
    path = directory / "program"
    path.write_text(f'#!/bin/sh\necho $$ >>"$0.pids"\n{body}\n')
    path.chmod(0o755)
    return path


def verdicts(daemon: Daemon, decisions: int) -> dict[str, int]:
    """How often there was each verdict, once so many decisions are compared."""

    def counts() -> dict[str, int]:
        found = dict[str, int]()
        for each in daemon.status()["witness"]["counts"].values():
            for verdict, number in each.items():
                found[verdict] = found.get(verdict, 0) + number
        return found

    wait_until(lambda: sum(counts().values()) >= decisions)
    return counts()


def ctl(daemon: Daemon, *words: str) -> Any:
    return run(PROGRAMS / "htoolsctl", "--socket", daemon.socket, *words)


def gone(pid: str) -> bool:
    return not os.path.exists(f"/proc/{pid}")


def living(daemon: Daemon) -> int:
    return int(daemon.status()["claims"]["living"])


def test_answers_of_debians_hail_reach_ganeti_claims_and_history(oracle: Oracle, tmp_path: Path) -> None:
    data = cluster(2, Shape(nodes=6, instances=20, groups=2))
    drbd = next(name for name, row in data["instances"].items() if row["disk_template"] == "drbd")
    asked = [
        allocate("new.example.org"),
        multi_allocate([allocate("a.example.org"), allocate("b.example.org", "plain")]),
        relocate(data, drbd),
        node_evacuate(data, data["instances"][drbd]["nodes"][0], "primary-only"),
    ]
    with running(tmp_path, config=witness(oracle.hail, "theirs")) as daemon:
        for number, each in enumerate(asked):
            path = tmp_path / f"request{number}"
            path.write_text(encode(message(data, each)))
            command = [str(oracle.hail), str(path), "--no-capacity-checks"]
            theirs = subprocess.run(command, capture_output=True, text=True, check=True)
            told = executable(daemon.socket, path, "--no-capacity-checks=", fallback="/bin/false")
            assert (told.stdout, told.stderr, told.returncode) == (theirs.stdout, theirs.stderr, 0)
        first = json.loads(ctl(daemon, "history", "--json", "--instance=new.example.org").stdout)[0]
        assert first["program"] == str(oracle.hail)
        assert "; answered by /usr/lib/ganeti/iallocators/hail" in ctl(daemon, "history").stdout
        assert verdicts(daemon, 4).keys() <= {"same", "equal", "better", "worse"}
        assert living(daemon) >= 4
        shown = ctl(daemon, "witness")
        assert (shown.returncode, " answers, 4 decisions compared, " in shown.stdout) == (4, True)
        assert f"witness    {oracle.hail} answers" in ctl(daemon, "status").stdout
        assert 'htoolsd_witness_decisions{type="relocate",verdict="same"} 1' in ctl(daemon, "metrics").stdout
        assert executable(daemon.socket, path, "--inter-group=", fallback="/bin/false").returncode == 0
        assert verdicts(daemon, 5)["failed"] == 1
        error = json.loads(ctl(daemon, "witness", "--json").stdout)["differences"][-1]["error"]
        assert "unrecognized option `--inter-group'" in error


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("exec sleep 1000", "timed out"),
        ("exec yes", "failed"),
        ("exec yes >&2", "failed"),
        ("kill -9 $$", "failed"),
        ("echo no; exit 1", "failed"),
        ("echo '{}'", "failed"),
        ("sleep 1000 & echo $! >>$0.pids; echo '{'", "timed out"),  # a child keeps the pipes open
        (None, "failed"),
    ],
)
def test_ganeti_gets_our_answer_and_claims_fit_it(tmp_path: Path, body: str | None, verdict: str) -> None:
    program = tmp_path / "none" if body is None else script(tmp_path, body)
    request = request_file(tmp_path)
    seconds = 0.5 if verdict == "timed out" else 60
    with running(tmp_path, config=witness(program, "theirs", timeout_seconds=seconds)) as daemon:
        told = executable(daemon.socket, request, fallback="/bin/false")
        assert (told.stdout, told.returncode) == (hail(request).stdout, 0)
        assert living(daemon) == 1
        assert verdicts(daemon, 1) == {verdict: 1}
        for pid in (tmp_path / "program.pids").read_text().split() if body else ():
            wait_until(partial(gone, pid))


def test_ours_answers_first_and_differences_are_kept_with_their_requests(
    oracle: Oracle, tmp_path: Path
) -> None:
    """The second instance goes elsewhere because of the claim of the first, of which hail knows nothing."""
    data = full_after(1)
    with running(tmp_path, config=witness(oracle.hail, "ours")) as daemon:
        for name in ("one", "two"):
            path = tmp_path / name
            path.write_text(encode(message(data, allocate(name, "plain", memory=1024))))
            assert executable(daemon.socket, path, fallback="/bin/false").returncode == 0
        assert verdicts(daemon, 2)["same"] == 1
        (found,) = json.loads(ctl(daemon, "witness", "--json").stdout)["differences"]
        assert found["explained"] == "D30"
        one = json.loads(ctl(daemon, "witness", found["id"], "--json").stdout)
        assert json.loads(one["ours"])["result"] != json.loads(one["theirs"])["result"]
        assert Path(one["file"]).read_bytes() == (tmp_path / "two").read_bytes()
        assert stat.S_IMODE(os.stat(one["file"]).st_mode) == 0o600
        assert "explained by D30 of docs/differences.md" in ctl(daemon, "witness", found["id"]).stdout
        assert json.loads(ctl(daemon, "history", "--json").stdout)[1]["id"] == found["id"]
        config = tmp_path / "state.toml"
        config.write_text(f'state_dir = "{daemon.state}"\n')
        why = ctl(daemon, "why", "--decision", found["id"], "--config", str(config))
        assert "\nPlaces for two, plain, score without it " in why.stdout
        refused = ctl(daemon, "witness", "cafe")
        assert (refused.returncode, "no difference with this id is kept" in refused.stderr) == (1, True)
    with running(tmp_path, config=witness(oracle.hail, "ours")) as again:
        wait_until(lambda: again.status()["witness"]["compared"] == 2)


def test_a_disk_that_refuses_the_record_stops_no_decision(oracle: Oracle, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "witness").touch()
    request = request_file(tmp_path)
    with running(tmp_path, config=witness(oracle.hail, "theirs")) as daemon:
        for number in (1, 2):
            assert executable(daemon.socket, request, fallback="/bin/false").returncode == 0
            assert sum(verdicts(daemon, number).values()) == number
        wait_until(lambda: daemon.status()["witness"]["error"])
        assert "; not recorded: " in ctl(daemon, "witness").stdout


def test_the_executable_waits_as_long_as_the_daemon_gives_signs(oracle: Oracle, tmp_path: Path) -> None:
    """Takes 5 s: the first sign comes after 2 s."""
    slow = script(tmp_path, f'sleep 4.5; exec {oracle.hail} "$@"')
    request = request_file(tmp_path)
    with running(tmp_path, config=witness(slow, "theirs")) as daemon:
        told = executable(daemon.socket, request, "--htoolsd-timeout=2.5", fallback="/bin/false")
        assert (told.returncode, told.stderr) == (0, "")
        assert daemon.status()["decisions"]["alone"] == 0


def test_tests_by_hand_are_not_compared(tmp_path: Path) -> None:
    request = request_file(tmp_path)
    with running(tmp_path, config=witness("/bin/false", "theirs")) as daemon:
        assert ctl(daemon, "decide", str(request)).returncode == 0
        assert daemon.status()["witness"]["counts"] == {}


def test_without_share_or_program_nothing_runs(tmp_path: Path) -> None:
    request = request_file(tmp_path)
    with running(tmp_path, config=witness("/bin/false", "theirs", share=0)) as daemon:
        assert executable(daemon.socket, request, fallback="/bin/false").returncode == 0
        assert ctl(daemon, "witness").stdout.startswith("/bin/false answers, 0 decisions compared")
