"""The manual pages: every program, option, key and tag is described, and no others."""

import argparse
import re
from pathlib import Path

import pytest

from ganeti_htools.cli import htoolsctl
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.programs import PROGRAMS
from ganeti_htools.planning.squeezing.hsqueeze import SqueezeOptions
from ganeti_htools.simulator import program as simulator
from htoolsd.config import config
from htoolsd.config.config import argument_parser

MAN = Path(__file__).parents[2] / "man"
PARSERS = {
    "htoolsctl.1": htoolsctl.parser(),
    "htoolsd.8": argument_parser(),
    "htools-simulator.1": simulator.argument_parser(),
}


def page(name: str) -> str:
    return (MAN / f"{name}.md").read_text("utf-8").replace("\\-", "-").replace("**", "")


def documented_options(name: str) -> set[str]:
    """Return the long options that the section OPTIONS of a page describes."""
    section = page(name).split("# OPTIONS\n")[1].split("\n# ")[0]
    terms = "\n".join(re.findall(r"(?m)^(-.*)\n:", section))
    return set(re.findall(r"--([a-z-]+)", terms))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_option_of_a_tool(name: str) -> None:
    program = PROGRAMS[name]
    assert documented_options(f"{name}.1") == {option.long for option in program.all_options}
    for option in program.options:
        if option.short:
            assert re.search(rf"(?<![\w-])-{option.short}[ \[,]", page(f"{name}.1")), option.long


@pytest.mark.parametrize("name", PARSERS)
def test_every_option_of_the_other_programs(name: str) -> None:
    actions = list(PARSERS[name]._actions)
    for action in PARSERS[name]._actions:
        if isinstance(action, argparse._SubParsersAction):
            assert all(f"\n{command}\n:   " in page(name) for command in action.choices)
            actions += [each for parser in action.choices.values() for each in parser._actions]
    names = {name for action in actions for name in action.option_strings if name.startswith("--")}
    assert {f"--{long}" for long in documented_options(name)} == names


def test_every_key_of_the_configuration() -> None:
    for line in config.describe().splitlines():
        table, setting = re.fullmatch(r"(?:(\w+)\.)?(\w+ = .*)", line[:47].strip()).groups()  # type: ignore[union-attr]
        term = "[[pool]]" if setting == "pool = []" else setting
        assert table is None or f"\n[{table}]\n:   " in page("htoolsd.conf.5")
        assert f"\n{term}\n:   " in page("htoolsd.conf.5")


def test_no_other_keys_of_the_configuration() -> None:
    described = set(re.findall(r"(?m)^ *(?:\w+\.)?(\w+) = ", config.describe()))
    assert set(re.findall(r"(?m)^(\w+) = .*\n:   ", page("htoolsd.conf.5"))) == described - {"pool"}


def test_every_page_is_listed_with_the_tools() -> None:
    names = {re.sub(r"\.(\d)\.md$", r"(\1)", path.name) for path in MAN.glob("*.md")}
    assert all(name in page("htools.1") for name in names - {"htools(1)"})
    assert {f"{name}(1)" for name in PROGRAMS} <= names


# Headings of a page beside NAME and DESCRIPTION, by its section.
HEADINGS = {
    "1": ("SYNOPSIS", "EXIT STATUS"),
    "5": ("SYNOPSIS", "KEYS", "EXAMPLE"),
    "7": (),
    "8": ("SYNOPSIS", "OPTIONS", "EXIT STATUS"),
}


@pytest.mark.parametrize("path", sorted(MAN.glob("*.md")), ids=lambda path: path.name)
def test_pages_have_one_form(path: Path) -> None:
    name, section = path.name.removesuffix(".md").rsplit(".", 1)
    text = path.read_text("utf-8")
    assert text.startswith(f"% {name.upper()}({section}) htoolsd | Ganeti\n%\n%\n\n# NAME\n\n{name} - ")
    for heading in ("DESCRIPTION", *HEADINGS[section], "SEE ALSO"):
        assert f"\n# {heading}\n" in text
    # Two hyphens would become a dash.
    prose = re.sub(r"(?m)^(    |\|).*$|<!--.*-->", "", text)
    assert not re.search(r"(?<!\\)--[a-z]", prose)


@pytest.mark.parametrize("path", sorted(MAN.glob("*.md")), ids=lambda path: path.name)
def test_pages_refer_to_pages_that_exist(path: Path) -> None:
    """Pages of Ganeti and of the system have names of their own."""
    named = set(re.findall(r"\*\*(h[a-z.-]+)\*\*\((\d)\)", path.read_text("utf-8")))
    assert [page for page in named if not (MAN / "{}.{}.md".format(*page)).exists()] == []


def test_every_tag_is_in_the_page_of_tags() -> None:
    """Tags that begin with ``htools:`` anywhere in the programs or documents."""
    top = MAN.parent
    files = [*(top / "ganeti_htools").rglob("*.py"), *(top / "daemon").rglob("*.py")]
    files += [*(top / "docs").glob("*.md"), *MAN.glob("*.md")]
    named = {tag for file in files for tag in re.findall(r"htools:([a-z]+)", file.read_text("utf-8"))}
    assert {"iextags", "pinned", "squeezing", "standby", "resource", "storage"} <= named
    rows = re.findall(r"(?m)^\| htools:([a-z]+)", page("htools-tags.7"))
    assert named == set(rows)


def test_defaults() -> None:
    line = CommandLine()
    assert f"({line.static_kvm_node_memory} by default" in page("htools.1")
    assert SqueezeOptions().factors == (2.0, 2.0)
    assert page("hsqueeze.1").count("Default: 2, or") == 2
