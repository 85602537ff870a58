"""The targets that a newcomer types."""

import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("target", ["test", "check"])
@pytest.mark.parametrize("failing", ["nothing", "shellcheck", "ruff", "mypy", "python"])
def test_runs_tests_whatever_linters_say_and_fails_for_both(
    tmp_path: Path, target: str, failing: str
) -> None:
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    for name in ("shellcheck", "ruff", "mypy", "python"):
        program = bin_directory / name
        program.write_text(f"#!/bin/sh\necho {name} runs\nexit {int(name == failing)}\n")
        program.chmod(0o755)
    for mark in (".installed", ".developer"):
        (tmp_path / mark).touch()
    command = ["make", "--no-print-directory", target, f"VENV={tmp_path}"]
    run = subprocess.run(command, cwd=TOP, text=True, capture_output=True)
    assert "python runs" in run.stdout
    assert (run.returncode == 0) == (failing == "nothing")
