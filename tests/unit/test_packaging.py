"""``setup.cfg``: packages, programs and the version."""

import configparser
import re
from importlib.metadata import distribution
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def test_every_package_is_listed() -> None:
    config = configparser.ConfigParser()
    config.read(TOP / "setup.cfg")
    found = set()
    for root, package in ((TOP, "ganeti_htools"), (TOP / "daemon", "htoolsd")):
        for init in (root / package).rglob("__init__.py"):
            found.add(".".join(init.parent.relative_to(root).parts))
    assert set(config["options"]["packages"].split()) == found


def test_debian_13_has_every_package_that_we_need() -> None:
    """The list for its suite names them as Debian does. HiGHS is for one test, which is left out there."""
    config = configparser.ConfigParser()
    config.read(TOP / "setup.cfg")
    extras = config["options.extras_require"]
    wanted = config["options"]["install_requires"] + extras["postgresql"] + extras["test"]
    lists = re.findall(r"python3-\{(.*)\}", (TOP / ".ci/test-debian-13").read_text())
    installed = {name for names in lists for name in names.split(",")}
    assert {re.split(r"[\[>]", line)[0] for line in wanted.split()} == installed | {"highspy"}


def test_locked_versions_satisfy_every_requirement() -> None:
    """Programs, tests and linters: the same version where two of these use a package."""
    config = configparser.ConfigParser()
    config.read(TOP / "setup.cfg")
    extras = config["options.extras_require"]
    required = config["options"]["install_requires"]
    locked = []
    for name, wanted in (("", required), ("-test", required + extras["test"] + extras["lint"])):
        text = (TOP / f"packaging/requirements{name}.txt").read_text()
        assert "://" not in text
        versions = dict(re.findall(r"(?m)^([a-z0-9-]+)==([0-9.]+)", text))
        for line in wanted.split():
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


def test_version_is_in_setup_cfg_only() -> None:
    """Programs take the version from the installation. The changelog lists all versions."""
    config = configparser.ConfigParser()
    config.read(TOP / "setup.cfg")
    stated = config["metadata"]["version"]
    assert distribution("htoolsd").version == stated
    repeated = re.compile(rf"(?<![\w.]){re.escape(stated)}(?![\w.])".encode())
    folders = "ganeti_htools daemon iallocator systemd man docs completions bench demo conformance"
    files = [TOP / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml")]
    files += [path for folder in folders.split() for path in (TOP / folder).rglob("*") if path.is_file()]
    assert [path for path in files if path.suffix != ".pyc" and repeated.search(path.read_bytes())] == []
