"""The systemd unit: systemd accepts it, and its programs, options and directories exist."""

import argparse
import shlex
import shutil
import subprocess
from importlib.metadata import distribution
from pathlib import Path

import pytest

from ganeti_htools.cli.setup.steps import DROP_IN, IALLOCATOR, STEPS
from ganeti_htools.client.protocol import DEFAULT_SOCKET
from htoolsd.config.config import Config, argument_parser

UNIT = Path(__file__).resolve().parents[2] / "systemd" / "htoolsd.service"
USERS = UNIT.with_name("sysusers.d") / "htoolsd.conf"


def unit() -> dict[str, dict[str, list[str]]]:
    """Return the settings by section; a key may have several values."""
    sections: dict[str, dict[str, list[str]]] = {}
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return sections


def setting(section: str, key: str) -> str:
    (value,) = unit()[section][key]
    return value


def options(command: str) -> argparse.Namespace:
    program, *words = shlex.split(command)
    assert Path(program).name in distribution("htoolsd").entry_points.names
    return argument_parser().parse_args(words)


def test_unit_starts_installed_program_with_known_options() -> None:
    chosen = options(setting("Service", "ExecStart"))
    assert (chosen.config, chosen.stay) == ("/etc/htoolsd.toml", True)
    assert setting("Service", "Type") == "notify"


def test_reload_checks_configuration_first() -> None:
    check, reload = unit()["Service"]["ExecReload"]
    assert options(check).check_config
    assert options(check).config == options(setting("Service", "ExecStart")).config
    assert reload == "/bin/kill -HUP $MAINPID"


def test_unit_starts_at_boot_without_depending_on_ganeti_units() -> None:
    assert setting("Install", "WantedBy") == "multi-user.target"
    assert not {"PartOf", "Requires", "BindsTo", "Requisite"} & unit()["Unit"].keys()
    assert "ganeti" not in setting("Unit", "Wants")


def test_directories_and_timeouts_match_the_daemon() -> None:
    config = Config()
    assert f"/run/{setting('Service', 'RuntimeDirectory')}" == str(Path(DEFAULT_SOCKET).parent)
    assert f"/var/lib/{setting('Service', 'StateDirectory')}" == config.state_dir
    assert float(setting("Service", "TimeoutStopSec")) > config.stop_seconds
    assert float(setting("Service", "WatchdogSec")) > 10


def test_user_of_the_daemon_is_declared() -> None:
    (user,) = (line.split()[1] for line in USERS.read_text().splitlines() if line.startswith("u "))
    assert setting("Service", "User") == user


def test_unit_takes_most_rights_from_the_daemon() -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze")
    command = [analyze, "security", "--offline=true", "--threshold=20", str(UNIT)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-200:] + result.stderr


def test_systemd_accepts_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze")
    installed = tmp_path / UNIT.name
    program = shutil.which("true")
    installed.write_text(UNIT.read_text().replace("/usr/local/bin/htoolsd", str(program)))
    result = subprocess.run([analyze, "verify", "--man=no", installed], capture_output=True, text=True)
    complaints = [line for line in result.stderr.splitlines() if UNIT.name in line]
    assert complaints == []


def test_setup_creates_the_unit_s_user_before_the_daemon_runs() -> None:
    names = [step.name for step in STEPS]
    assert names.index("user") < names.index("daemon")
    assert setting("Service", "User") == IALLOCATOR


def test_setup_runs_the_daemon_as_root_by_a_drop_in() -> None:
    drop_in = UNIT.with_name(Path(DROP_IN).name).read_text()
    assert "User=root\nSupplementaryGroups=\n" in drop_in
    assert Path(DROP_IN).parent.name == f"{UNIT.name}.d"
