"""The manual pages tell of every program, of all its options, and of no others."""

import argparse
import re
from pathlib import Path

import pytest

from ganeti_htools.cli import htoolsctl
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.programs import PROGRAMS
from ganeti_htools.planning.hsqueeze import SqueezeOptions
from ganeti_htools.simulator import program as simulator
from htoolsd.process import config
from htoolsd.process.arguments import parser

MAN = Path(__file__).parents[2] / "man"
PARSERS = {
    "htoolsctl.1": htoolsctl._parser(),
    "htoolsd.8": parser(),
    "htools-simulator.1": simulator._parser(),
}


def page(name: str) -> str:
    return (MAN / f"{name}.md").read_text("utf-8").replace("\\-", "-").replace("**", "")


def told(name: str) -> set[str]:
    """Long options that the OPTIONS of a page tell of."""
    section = page(name).split("# OPTIONS\n")[1].split("\n# ")[0]
    terms = "\n".join(re.findall(r"(?m)^(-.*)\n:", section))
    return set(re.findall(r"--([a-z-]+)", terms))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_option_of_a_tool(name: str) -> None:
    program = PROGRAMS[name]
    assert told(f"{name}.1") == {option.long for option in program.all_options}
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
    assert {f"--{long}" for long in told(name)} == names


def test_every_key_of_the_configuration() -> None:
    for line in config.describe().splitlines():
        table, setting = re.fullmatch(r"(?:(\w+)\.)?(\w+ = .*)", line[:47].strip()).groups()  # type: ignore[union-attr]
        term = "[[pool]]" if setting == "pool = []" else setting
        assert table is None or f"\n[{table}]\n:   " in page("htoolsd.8")
        assert f"\n{term}\n:   " in page("htoolsd.8")


def test_every_page_is_told_of_where_the_tools_are_listed() -> None:
    names = {path.name.removesuffix(".md").replace(".", "(") + ")" for path in MAN.glob("*.md")}
    assert all(name in page("htools.1") for name in names - {"htools(1)"})
    assert {f"{name}(1)" for name in PROGRAMS} <= names


@pytest.mark.parametrize("path", sorted(MAN.glob("*.md")), ids=lambda path: path.name)
def test_pages_are_of_one_form(path: Path) -> None:
    name, section, _ = path.name.split(".")
    text = path.read_text("utf-8")
    assert text.startswith(f"% {name.upper()}({section}) htoolsd | Ganeti\n%\n%\n\n# NAME\n\n{name} - ")
    for heading in (
        "SYNOPSIS",
        "DESCRIPTION",
        "EXIT STATUS" if section == "1" else "CONFIGURATION",
        "SEE ALSO",
    ):
        assert f"\n# {heading}\n" in text
    # Two hyphens would become a dash.
    assert not re.search(r"(?m)^(?!    ).*(?<!\\)--[a-z]", text)


def test_defaults() -> None:
    line = CommandLine()
    assert f"{line.static_kvm_node_memory}\n    by default" in page("htools.1")
    assert SqueezeOptions().factors == (2.0, 2.0)
    assert page("hsqueeze.1").count("(2)") == 2
