"""Standard streams that are closed, full, or read by nobody."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from tests.support.programs import PATIENCE, PROGRAMS, Finished, small_cluster

DAEMON = f"{sys.executable} -m htoolsd --socket socket --state-dir state --luxi luxi"
# Asks often enough that what is logged of it fills any pipe.
ASKING = """
import ganeti_htools.client.calls, sys
for _ in range(500):
    try:
        ganeti_htools.client.calls.ask("socket", "no" * 50, {}, patience=20)
    except ganeti_htools.client.calls.CallRefusedError:
        pass
"""


def shell(script: str, directory: Path) -> Finished:
    return subprocess.run(
        ["bash", "-c", script], cwd=directory, capture_output=True, text=True, timeout=2 * PATIENCE
    )


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster"
    path.write_text(text.dump(small_cluster()))
    return path


@pytest.mark.parametrize("redirection", [">&- 2>&-", "2>/dev/full", "2> >(head -c 1 >/dev/null)"])
def test_daemon_works_when_its_log_cannot_be_written(tmp_path: Path, redirection: str) -> None:
    script = f"""
        {DAEMON} {redirection} & daemon=$!
        until [ -S socket ]; do sleep 0.02; done
        {PROGRAMS}/htoolsctl --socket socket status
        kill $daemon; wait $daemon; echo status $?
    """
    ended = shell(script, tmp_path)
    assert ended.stdout.count(", process ") == 1, ended.stderr
    assert ended.stdout.endswith("status 0\n")
    assert ended.stderr == ""
    assert (tmp_path / "state" / "lock").read_bytes() == b""


def test_daemon_works_when_nobody_reads_its_log(tmp_path: Path) -> None:
    process = subprocess.Popen(DAEMON.split(), cwd=tmp_path, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        assert any(b"ready" in line for line in process.stderr)
        asked = subprocess.run(
            [sys.executable, "-c", ASKING], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
        )
        assert (asked.returncode, asked.stderr) == (0, "")
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("hinfo -t cluster >&-", 0, ""),
        ("hinfo -t cluster >/dev/full", 1, "Error: standard output: No space left on device\n"),
        ("hspace --help >/dev/full", 1, "Error: standard output: No space left on device\n"),
        ("hspace --help 2>&-", 0, ""),
        ("hinfo -t cluster >&- 2>&-", 0, ""),
    ],
)
def test_tool_fails_when_it_cannot_print(cluster_file: Path, command: str, status: int, said: str) -> None:
    ended = shell(f"{PROGRAMS}/{command}", cluster_file.parent)
    assert (ended.returncode, ended.stderr) == (status, said)


def test_tool_ends_quietly_when_its_output_is_not_read(cluster_file: Path) -> None:
    script = (
        f"{PROGRAMS}/hinfo -t {cluster_file.name} | head -n1 >/dev/null; {PROGRAMS}/hbal -t nowhere | true"
    )
    ended = shell(script, cluster_file.parent)
    assert (
        ended.stderr
        == "Error: failed to load data, aborting: nowhere: cannot be read: No such file or directory\n"
    )


def test_htoolsctl_fails_when_it_cannot_print(tmp_path: Path) -> None:
    ended = shell(f"{PROGRAMS}/htoolsctl --socket none status >&-", tmp_path)
    assert (ended.returncode, ended.stderr) == (
        1,
        "htoolsctl: none: No such file or directory; is htoolsd running?\n",
    )


ASCII = "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0"


def test_escapes_letters_that_the_terminal_lacks(cluster_file: Path) -> None:
    cluster_file.write_text(cluster_file.read_text().replace("inst", "inßt"))
    ended = shell(f"{ASCII} {PROGRAMS}/hbal -t cluster -l2", cluster_file.parent)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "1. in\\xdft" in ended.stdout
    as_json = shell(f"{ASCII} {PROGRAMS}/hbal -t cluster -l2 --json", cluster_file.parent)
    assert json.loads(as_json.stdout)["steps"][0]["instance"].startswith("inßt")
