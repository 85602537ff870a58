import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from ganeti_htools.cli import htools
from ganeti_htools.commandline.programs import PROGRAMS


def run(name: str, *argv: str, role: str | None = None) -> subprocess.CompletedProcess[str]:
    """The program under this name; it is told its role by the environment if ``role`` is given."""
    environment = {key: value for key, value in os.environ.items() if key != "HTOOLS"}
    if role is not None:
        environment["HTOOLS"] = role
    script = (
        f"import sys; sys.argv[0] = {name!r}; from ganeti_htools.cli import htools; sys.exit(htools.main())"
    )
    command = [sys.executable, "-c", script, *argv]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_its_name_tells_its_role() -> None:
    assert run("/usr/bin/HScan", "--version").stdout.startswith("hscan (htoolsd) version")


def test_the_environment_tells_before_the_name() -> None:
    result = run("hscan", "--help", role="HAIL")
    assert result.returncode == 0
    assert "Usage: hail [OPTION...]" in result.stdout


def test_its_role_sets_the_exit_status() -> None:
    assert run("hail", "--no-such-option").returncode == 2
    assert run("hail", "/nonexistent").returncode == 1


@pytest.mark.parametrize(("name", "role"), [("htools", None), ("hscan", "hbull"), ("hail", "")])
def test_without_a_role_it_lists_them(name: str, role: str | None) -> None:
    result = run(name, role=role)
    assert result.returncode == 1
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0] == f"Unrecognised personality '{name if role is None else role}'."
    assert all(any(line.startswith(f" {known} ") for line in lines) for known in PROGRAMS)
    assert max(map(len, lines)) < 90


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_tool_is_installed(name: str) -> None:
    assert callable(getattr(htools, name))
    assert callable(import_module(f"ganeti_htools.cli.{name}").run)
    project = Path(__file__).parents[3].joinpath("pyproject.toml").read_text("utf-8")
    assert f'\n{name} = "ganeti_htools.cli.htools:{name}"\n' in project
