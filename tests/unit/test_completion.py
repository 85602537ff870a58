"""The bash completion, in bash."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
FILE = TOP / "completions/htoolsd.bash"
BASH = shutil.which("bash") or pytest.skip("no bash", allow_module_level=True)


def complete(*words: str, home: Path = TOP, role: str = "") -> list[str]:
    """What the last word may become. An equals sign is a word of its own."""
    asked = 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _htoolsd "$1"'
    script = f'source "$0"; {asked}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    result = subprocess.run(
        [BASH, "-c", script, FILE, *words],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "HTOOLSD_SSCONF": str(home)} | ({"HTOOLS": role} if role else {}),
        cwd=home,
    )
    assert result.stderr == ""
    return result.stdout.split()


def test_it_is_what_the_programs_say() -> None:
    result = subprocess.run(
        [sys.executable, TOP / "completions/make.py"], capture_output=True, text=True, check=True
    )
    assert result.stdout == FILE.read_text("utf-8"), "run completions/make.py >completions/htoolsd.bash"


def test_zsh_completes_the_same_programs() -> None:
    (bash,) = re.findall(r"(?m)^complete -F _htoolsd (.*)", FILE.read_text("utf-8"))
    (zsh,) = re.findall(r"^#compdef (.*)", FILE.with_name("_htoolsd").read_text("utf-8"))
    assert {*zsh.split()} == {*bash.split()}


def test_options() -> None:
    assert complete("hsqueeze", "--mi") == ["--minimal-resources"]
    assert complete("/usr/local/bin/hscan", "--out") == ["--output-dir"]
    assert complete("htoolsctl", "--so") == ["--socket"]
    assert {"-t", "--text-data", "--version"} <= set(complete("hail", "-"))


def test_choices() -> None:
    assert complete("hail", "--mond", "=") == ["yes", "no"]
    assert complete("hail", "--mond", "=", "y") == ["yes"]
    commands = ["status", "refresh", "storage", "methods", "setup", "top", "bundle", "check", "forecast"]
    commands += [
        "metrics",
        "report",
        "notify",
        "glossary",
        "plans",
        "plan",
        "execute",
        "resume",
        "cancel",
        "forget",
    ]
    commands += ["policies", "run", "history", "why", "decide", "make-room", "witness", "replay", "load"]
    commands += ["sizes", "providers", "inventory", "usage", "allocations", "claim", "candidates", "release"]
    assert complete("htoolsctl", "") == commands


def test_nodes_follow_the_action_of_a_tool(tmp_path: Path) -> None:
    (tmp_path / "ssconf_node_list").write_text("node1\nspare\n")
    assert complete("hmaintain", "", home=tmp_path) == ["start", "end", "roll", "status"]
    assert complete("hmaintain", "-D", "st", home=tmp_path) == ["start", "status"]
    assert complete("hmaintain", "start", "", home=tmp_path) == ["node1", "spare"]
    assert complete("hmaintain", "start", "node1", "s", home=tmp_path) == ["spare"]


def test_an_argument_that_may_be_left_out_has_to_be_attached() -> None:
    assert complete("hail", "--mond", "y") == []


def test_an_argument_that_is_required_may_be_a_word_of_its_own() -> None:
    assert complete("hbal", "--priority", "") == ["low", "normal", "high"]
    assert complete("hbal", "--priority", "hi") == ["high"]
    assert complete("hbal", "--priority", "=", "hi") == ["high"]


def test_commands_have_options_and_arguments_of_their_own(tmp_path: Path) -> None:
    program = tmp_path / "htoolsctl"
    program.write_text(
        '#!/bin/sh\n[ "$*" = "--socket there plans" ] || exit 1\n'
        "echo 'hbal by root is being made'\necho 'Plan          Tool'\n"
        "echo 'abc123def456  hbal'\necho 'fed654cba321  hsqueeze'\n"
    )
    program.chmod(0o755)
    assert complete("htoolsctl", "cancel", "--n") == ["--now"]
    assert complete("htoolsctl", "plan", "--n") == []
    assert complete("htoolsctl", "--socket", "there", "status", "--j") == ["--json"]
    for command in ("plan", "execute", "cancel"):
        typed = (str(program), "--socket", "there", command)
        assert complete(*typed, "") == ["abc123def456", "fed654cba321"]
        assert complete(*typed, "f") == ["fed654cba321"]
    assert complete(str(program), "--socket", "=", "there", "cancel", "--now", "a") == ["abc123def456"]
    assert complete(str(program), "--socket", "elsewhere", "plan", "") == []


def test_files(tmp_path: Path) -> None:
    (tmp_path / "cluster.data").touch()
    (tmp_path / "directory").mkdir()
    assert complete("hsqueeze", "-t", "clu", home=tmp_path) == ["cluster.data"]
    assert complete("hsqueeze", "--text-data", "=", "clu", home=tmp_path) == ["cluster.data"]
    assert complete("hail", "clu", home=tmp_path) == ["cluster.data"]
    assert complete("htools-simulator", "clu", home=tmp_path) == ["cluster.data"]
    assert complete("hsqueeze", "clu", home=tmp_path) == []
    assert complete("hscan", "-d", "", home=tmp_path) == ["directory"]


def test_names_of_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "ssconf_node_list").write_text("node1\nnode2\nother\n")
    option = "--restrict-allocation-to"
    assert complete("hail", option, "=", "no", home=tmp_path) == ["node1", "node2"]
    assert complete("hail", option, "node1,o", home=tmp_path) == ["node1,other"]


def test_the_program_that_is_all_tools() -> None:
    assert complete("htools", "--target", role="hsqueeze") == ["--target-resources"]
    assert complete("htools", "--target") == []
