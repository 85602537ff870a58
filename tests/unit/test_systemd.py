"""The systemd unit is what systemd understands, and names what is there."""

import configparser
import shlex
import shutil
import subprocess
from importlib.metadata import distribution
from pathlib import Path

import pytest

from ganeti_htools.daemon.protocol import DEFAULT_SOCKET
from htoolsd import service
from htoolsd.config import Config
from htoolsd.mastership import EXIT_NOT_MASTER

UNIT = Path(__file__).resolve().parents[2] / "systemd" / "htoolsd.service"


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names are told by case
    parser.read_string(UNIT.read_text())
    return parser


def test_it_starts_a_program_of_ours_with_options_that_it_has() -> None:
    program, *options = shlex.split(unit()["Service"]["ExecStart"])
    assert Path(program).name in distribution("htoolsd").entry_points.names
    service._parser().parse_args(options)
    assert unit()["Service"]["Type"] == "notify"


def test_another_node_is_no_failure() -> None:
    settings = unit()["Service"]
    for key in ("SuccessExitStatus", "RestartPreventExitStatus"):
        assert settings[key] == str(EXIT_NOT_MASTER)
    assert settings["Restart"] == "on-failure"
    assert unit()["Unit"]["PartOf"] == unit()["Install"]["WantedBy"] == "ganeti-master.target"


def test_directories_and_times_are_those_of_the_daemon() -> None:
    settings, config = unit()["Service"], Config()
    assert f"/run/{settings['RuntimeDirectory']}" == str(Path(DEFAULT_SOCKET).parent)
    assert f"/var/lib/{settings['StateDirectory']}" == config.state_dir
    assert float(settings["TimeoutStopSec"]) > config.stop_seconds


def test_systemd_has_no_objections(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze")
    installed = tmp_path / UNIT.name
    program = shutil.which("true")
    installed.write_text(UNIT.read_text().replace("/usr/bin/htoolsd", str(program)))
    result = subprocess.run([analyze, "verify", "--man=no", installed], capture_output=True, text=True)
    complaints = [line for line in result.stderr.splitlines() if UNIT.name in line]
    assert complaints == []
