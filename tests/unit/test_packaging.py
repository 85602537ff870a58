"""What setup.cfg says is what is there."""

import configparser
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


def test_every_program_can_be_started() -> None:
    programs = distribution("htoolsd").entry_points.select(group="console_scripts")
    assert {"hail", "htoolsd", "htoolsctl"} <= programs.names
    for program in programs:
        assert callable(program.load())
