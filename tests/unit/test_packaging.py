"""``pyproject.toml``: requirements, programs and the version."""

import re
import subprocess
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from tests.support.promised import FILE, promised

TOP = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
REQUIRED: list[str] = PROJECT["dependencies"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def test_debian_13_has_every_package_that_we_need() -> None:
    """The list for its suite names them as Debian does. HiGHS is for one test, which is left out there."""
    wanted = REQUIRED + EXTRAS["postgresql"] + EXTRAS["test"]
    lists = re.findall(r"python3-\{(.*)\}", (TOP / ".ci/test-debian-13").read_text())
    installed = {name for names in lists for name in names.split(",")}
    assert {re.split(r"[\[>]", line)[0] for line in wanted} == installed | {"highspy"}


def test_locked_versions_satisfy_every_requirement() -> None:
    """Programs, tests and linters: the same version where two of these use a package."""
    locked = []
    for name, wanted in (("", REQUIRED), ("-test", REQUIRED + EXTRAS["test"] + EXTRAS["lint"])):
        text = (TOP / f"packaging/requirements{name}.txt").read_text()
        assert "://" not in text
        versions = dict(re.findall(r"(?m)^([a-z0-9-]+)==([0-9.]+)", text))
        for line in wanted:
            package, _, least = re.sub(r"\[.*\]", "", line).partition(">=")
            assert [*map(int, versions[package].split("."))] >= [*map(int, (least or "0").split("."))]
        locked.append(versions)
    programs, tests = locked
    assert all(programs[name] == tests[name] for name in programs.keys() & tests)


def test_every_program_is_in_one_debian_package() -> None:
    """With its completion and its manual page."""
    files = [path.read_text().split() for path in (TOP / "debian").glob("*.install")]
    assert len(files) == 2
    names = distribution("htoolsd").entry_points.select(group="console_scripts").names
    pages = [f"usr/share/man/man1/{path.stem}" for path in (TOP / "man").glob("*.1.md")]
    for name in names:
        (own,) = (each for each in files if f"usr/bin/{name}" in each)
        assert f"usr/share/bash-completion/completions/{name}" in own
    for page in pages:
        assert len([each for each in files if page in each]) == 1, page


def test_every_program_can_be_started() -> None:
    programs = distribution("htoolsd").entry_points.select(group="console_scripts")
    assert {"hail", "htoolsd", "htoolsctl"} <= programs.names
    for program in programs:
        assert callable(program.load())


def test_version_is_in_one_place() -> None:
    """Programs take the version from the installation. The changelogs list all versions."""
    stated = PROJECT["version"]
    assert distribution("htoolsd").version == stated
    assert (TOP / "debian/changelog").read_text().startswith(f"htoolsd ({stated}) ")
    assert f"\n## [{stated}] - " in (TOP / "CHANGELOG.md").read_text()
    repeated = re.compile(rf"(?<![\w.]){re.escape(stated)}(?![\w.])".encode())
    folders = "ganeti_htools daemon iallocator systemd man docs completions bench demo conformance"
    files = [TOP / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "setup.cfg")]
    files += [path for folder in folders.split() for path in (TOP / folder).rglob("*") if path.is_file()]
    assert [path for path in files if path.suffix != ".pyc" and repeated.search(path.read_bytes())] == []


def test_source_archive_has_every_folder_and_file() -> None:
    """``MANIFEST.in`` names them; setuptools adds packages, licence, README and its own files."""
    listed = subprocess.run([TOP / ".ci/sources"], cwd=TOP, capture_output=True, check=True).stdout.decode()
    names = {name.removeprefix("./").split("/")[0] for name in listed.split("\0") if name}
    archived = set((TOP / "MANIFEST.in").read_text().split())
    own = {"LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "ganeti_htools", "pyproject.toml", "setup.cfg"}
    assert names <= archived | own


def test_nothing_that_was_promised_is_gone() -> None:
    """``docs/stability.md``. Once released, only a major version may take lines out of the file; before that,
    ``python -m tests.support.promised`` writes it anew.
    """
    assert set(FILE.read_text("utf-8").splitlines()) - set(promised()) == set()
