"""What setup.cfg says is what is there."""

import configparser
from importlib.metadata import entry_points
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
    programs = [entry for entry in entry_points(group="console_scripts") if entry.dist is not None]
    ours = {entry.name: entry for entry in programs if entry.dist.name == "htoolsd"}
    assert {"hail", "htoolsd", "htoolsctl"} <= set(ours)
    for entry in ours.values():
        assert callable(entry.load())
