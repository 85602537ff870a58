"""``make install`` and ``make uninstall``, below directories of their own."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

if shutil.which("make") is None:
    pytest.skip("no make", allow_module_level=True)
TOP = Path(__file__).parents[2]
PREFIX = "opt/htoolsd"


def make(target: str, root: Path) -> None:
    environment = root / "environment"  # a path without blanks
    if not environment.exists():
        environment.symlink_to(sys.prefix)
    command = ["make", "--no-print-directory", target, f"DESTDIR={root}", f"PREFIX=/{PREFIX}"]
    subprocess.run([*command, f"PYTHON={environment}/bin/python"], cwd=TOP, check=True, capture_output=True)


def run(*command: str | Path, **environment: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | environment)
    return result.stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make("install", tmp_path)
    return tmp_path


def test_installs_programs_that_run_below_any_directory(root: Path) -> None:
    top = root / PREFIX
    example = top / "share/htoolsd/examples/allocate.json"
    decision = run(top / "bin/hail", example)
    assert json.loads(decision)["success"] is True
    assert run(top / "bin/hbal", "--version").startswith("hbal (htoolsd) version ")
    assert run(top / "bin/htoolsctl", "glossary", "claim").startswith("claim")
    # A hail of Ganeti, beside which ours is installed, must not decide.
    (top / "bin/hail").unlink()
    (top / "bin/hail").symlink_to("/bin/false")
    executable = top / "lib/ganeti/iallocators/htoolsd"
    assert run(executable, example, HTOOLSD_SOCKET=str(root / "none")) == decision
    assert f"=/{PREFIX}/bin/htoolsd " in (top / "lib/systemd/system/htoolsd.service").read_text()
    assert f":/{PREFIX}/bin/\n" in (top / "share/htoolsd/hooks/htoolsd-policies").read_text()


def test_installed_documents_refer_to_each_other(root: Path) -> None:
    pages = list((root / PREFIX / "share/doc/htoolsd").rglob("*.md"))
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#:]+)[)#]", page.read_text())]
    assert len(links) > 40
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_keeps_the_configuration(root: Path) -> None:
    configuration = root / "etc/htoolsd.toml"
    configuration.write_text("# mine\n")
    stale = root / PREFIX / "lib/htoolsd/python/htoolsd/removed.py"
    stale.touch()
    make("install", root)
    assert not stale.exists()
    make("uninstall", root)
    assert [path for path in root.rglob("*") if not path.is_dir()] == [configuration]
    assert configuration.read_text() == "# mine\n"
