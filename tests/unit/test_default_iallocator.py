"""``packaging/default-iallocator``: decides whether the package may be removed."""

import json
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "packaging/default-iallocator"


def ask(directory: Path) -> tuple[str, str]:
    result = subprocess.run([PROGRAM, directory], capture_output=True, text=True, check=True)
    return result.stdout.strip(), result.stderr


@pytest.mark.parametrize("name", ["htoolsd", "hail", "", None])
def test_reads_the_configuration_of_a_master_candidate(tmp_path: Path, name: str | None) -> None:
    (tmp_path / "config.data").write_text(json.dumps({"cluster": {"default_iallocator": name}}))
    assert ask(tmp_path) == (name or "", "")


def test_a_machine_without_a_cluster_has_none(tmp_path: Path) -> None:
    assert ask(tmp_path) == ("", "")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"cluster": null}'])
def test_warns_if_the_configuration_cannot_be_read(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.data").write_text(content)
    found, warning = ask(tmp_path)
    assert found == ""
    assert "is not known: " in warning
    assert warning.count("\n") == 1


def test_warns_if_the_remote_api_cannot_be_asked(tmp_path: Path) -> None:
    (tmp_path / "ssconf_cluster_name").write_text("localhost\n")
    found, warning = ask(tmp_path)
    assert found == ""
    assert "is not known: " in warning
