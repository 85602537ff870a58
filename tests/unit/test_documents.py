"""What documents and docstrings refer to exists, and their examples are right."""

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from htoolsd.config.config import Config, load
from tests.support.documents import DOCUMENTS, OURS, SAMPLES, Block, blocks, complaint, matches, sessions
from tests.support.programs import ROOT
from tests.support.storage_units import taken

# A path is written from the top, or below one of these.
ROOTS = (
    *(ROOT, ROOT / "ganeti_htools", ROOT / "daemon", ROOT / "docs"),
    ROOT / "tests" / "support",
    *(ROOT / "ganeti_htools" / "engine" / room for room in ("balancing", "groups")),
)
PACKAGES = (ROOT / "ganeti_htools", ROOT / "daemon" / "htoolsd")
PLACEHOLDER = re.compile("NAME|SUBJECT")
EXAMPLES = [(path, block) for path in DOCUMENTS for block in blocks(path.read_text("utf-8"))]


def of_kind(kind: str) -> list[tuple[Path, Block]]:
    found = [(path, block) for path, block in EXAMPLES if block.kind == kind]
    assert found
    return found


def test_examples_of_commands_are_commands_of_a_shell() -> None:
    commands = [block for _, block in [*of_kind("shell"), *of_kind("not")]]
    for block in commands:
        done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
        assert done.stderr == "", block.text
    assert sum(block.runs for block in commands) > 40


def test_programs_understand_the_commands() -> None:
    """In blocks, and in the text where more than a name is there."""
    examples = [
        (path, words)
        for path, block in EXAMPLES
        for words in block.commands
        if block.kind in ("shell", "not")
    ]
    for path in DOCUMENTS:
        spans = re.findall(rf"`((?:{'|'.join(OURS)}) [^`]+)`", path.read_text("utf-8"))
        examples += [(path, shlex.split(span.split("|")[0])) for span in spans]
    ours = [(path, words) for path, words in examples if words and words[0] in OURS - {"htools"}]
    assert len(ours) > 60
    assert [(path.name, words) for path, words in ours if complaint(words)] == []


SAMPLE_DOCUMENT = """
Text.

    hinfo -t a.data | head -n 1

<!-- output -->

    1 ... 3

More text.

<!-- daemon a.data -->

    gnt-node list

:   A definition

    that goes on.

<!-- text -->

    anything
"""


def test_blocks_have_kinds_and_definitions_are_none() -> None:
    found = [(block.kind, block.text, block.runs) for block in blocks(SAMPLE_DOCUMENT)]
    assert found == [
        ("shell", "hinfo -t a.data | head -n 1", True),
        ("output", "1 ... 3", False),
        ("daemon", "", False),
        ("shell", "gnt-node list", False),
        ("text", "anything", False),
    ]
    (session,) = sessions(SAMPLE_DOCUMENT)
    assert [block.kind for block in session.blocks] == ["shell", "output"]


def test_output_is_compared_but_for_dots_and_empty_lines() -> None:
    assert matches("1 ... 3\n4", "1 2 3\n\n4  \n")
    assert not matches("1 ... 3", "1 2 4")
    assert not matches("1", "1\n2")


def test_clusters_are_the_samples() -> None:
    for path, block in of_kind("cluster"):
        assert block.text == (SAMPLES / block.argument).read_text("utf-8").rstrip(), path.name


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.data")), ids=lambda path: path.name)
def test_samples_can_be_read_and_are_listed(path: Path) -> None:
    assert text.parse(path.read_text("utf-8"), path.name).nodes
    assert f"`{path.name}`" in (ROOT / "docs/rehearsing.md").read_text("utf-8")


def test_configurations_are_right(tmp_path: Path) -> None:
    for path, block in of_kind("config"):
        file = tmp_path / "htoolsd.toml"
        file.write_text(block.text)
        assert isinstance(load(str(file), {}), Config), path.name


def test_output_follows_commands_that_are_run() -> None:
    """What is not run has no output that is compared, unless another test does."""
    for path in DOCUMENTS:
        before = None
        for block in blocks(path.read_text("utf-8")):
            if block.kind == "output":
                assert before is not None
                assert before.runs or before.kind == "not", block.text
            before = block


def test_links_lead_somewhere() -> None:
    for path in [*DOCUMENTS, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_figures_of_the_storage_sample_agree_with_its_disks() -> None:
    cluster = text.parse((SAMPLES / "storage.data").read_text("utf-8"), "example")
    figures = taken(cluster)
    assert len(figures) == 7
    assert all(figure == disks for figure, disks in figures.values())


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "docs/architecture.md"])
def test_files_that_are_named_exist(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    named = set(re.findall(r"(?<![\w./-])[a-z][\w./-]*\.(?:py|md|cfg|toml|txt|service)\b", text))
    folders = {path.name for root in ROOTS for path in root.iterdir() if path.is_dir()}
    named |= {name for name in re.findall(r"`([\w./-]+/[\w./-]*)`", text) if name.split("/")[0] in folders}
    named = {name for name in named if not PLACEHOLDER.search(name) and f"/{name}" not in text}
    assert named
    assert [name for name in sorted(named) if not any((root / name).exists() for root in ROOTS)] == []


def test_tests_that_contributing_names_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "CONTRIBUTING.md").read_text("utf-8")))
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 5
    assert [name for name in sorted(named) if f"def {name}(" not in sources] == []


def defined(source: str) -> Iterator[str]:
    """Names of all functions, classes and assigned variables of a module, at any depth."""
    for match in re.finditer(r"\b(?:def|class) (\w+)|\b(\w+)(?:: [^=\n]+)? = ", source):
        yield match[1] or match[2]


def test_docstrings_refer_to_what_there_is() -> None:
    """In ``:mod:`` the module, in the others at least the last name."""
    sources = [path for package in PACKAGES for path in package.rglob("*.py")]
    modules = {
        path.relative_to(root).with_suffix("")
        for root in (ROOT, ROOT / "daemon")
        for path in sources
        if path.is_relative_to(root)
    }
    dotted = {"." + ".".join(path.parts) for path in modules}
    names = {name for path in sources for name in defined(path.read_text("utf-8"))}
    missing = []
    for path in sources:
        for role, target in re.findall(r":(mod|func|meth|class):`([^`]+)`", path.read_text("utf-8")):
            known = (
                any(module.endswith("." + target.lstrip(".")) for module in dotted)
                if role == "mod"
                else target.rpartition(".")[2] in names
            )
            if not known:
                missing.append(f"{path.relative_to(ROOT)}: {target}")
    assert missing == []


TROUBLESHOOTING = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
LEVELS = {"warning", "error", "exception", "critical"}


@cache
def modules(package: Path) -> list[ast.Module]:
    return [ast.parse(path.read_text("utf-8")) for path in sorted(package.rglob("*.py"))]


def calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def pattern(text: ast.AST) -> str | None:
    """A regular expression for a text of the program: anything stands for what is filled in."""
    match text:
        case ast.Constant(value=str(value)):
            return re.escape(value)
        case ast.JoinedStr(values=parts):
            return "".join(pattern(part) or ".+" for part in parts)
    return None


def undocumented(texts: Sequence[ast.AST]) -> list[str]:
    """Texts of the program that the page about trouble does not have."""
    quoted = re.findall(r"`([^`\n]+)`", TROUBLESHOOTING)
    patterns = sorted({found for found in map(pattern, texts) if found and re.search(r"\w{3}", found)})
    assert patterns
    return [found for found in patterns if not any(re.fullmatch(found, each) for each in quoted)]


def logged(tree: ast.Module) -> Iterator[str]:
    """Yield the events that a module logs as warnings or worse, or as one of several levels."""
    names = {
        ast.unparse(node.targets[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and "_log.warning" in ast.unparse(node.value)
    } | {f"_log.{level}" for level in LEVELS}
    for call in calls(tree):
        match call.args:
            case [ast.Constant(value=str(event)), *_] if ast.unparse(call.func) in names:
                yield event
            case [
                ast.Dict(keys=[ast.Constant(value="event"), *_], values=[ast.Constant(value=str(event)), *_])
            ]:
                yield event


def test_troubleshooting_has_every_warning_and_error_of_the_log() -> None:
    events = {event for tree in modules(ROOT / "daemon") for event in logged(tree)}
    cells = re.findall(r"(?m)^\| `([^|]+)` \|", _section("In the log of the daemon"))
    assert len(events) > 30
    assert events == {event for cell in cells for event in cell.split("`, `")}


def test_troubleshooting_has_every_refusal() -> None:
    """But wrong arguments: a client that uses the methods as described has none."""
    refusals = [
        call.args[1]
        for tree in modules(ROOT / "daemon")
        for call in calls(tree)
        if ast.unparse(call.func) == "RefusalError" and ast.unparse(call.args[0]) != "Refusal.ARGUMENTS"
    ]
    assert undocumented(refusals) == []


# Errors that clients, or the administrator who starts the daemon, see as they are.
ERRORS = {"StartError", "LedgerError", "UnavailableError", "UnknownError", "ConflictError"}


def test_troubleshooting_has_every_error_of_the_start_and_the_ledger() -> None:
    """But errors of which the program only passes the text on."""
    texts = [
        call.args[0]
        for tree in modules(ROOT / "daemon")
        for call in calls(tree)
        if ast.unparse(call.func) in ERRORS and call.args
    ]
    assert len(texts) > 15
    assert undocumented(texts) == []


def test_troubleshooting_has_every_condition_of_policies() -> None:
    tree = ast.parse((ROOT / "daemon/htoolsd/policies/conditions.py").read_text("utf-8"))
    returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value]
    texts = [way for value in returned for way in alternatives(value)]
    assert undocumented(texts) == []


def alternatives(value: ast.expr) -> list[ast.expr]:
    """What an expression may become."""
    match value:
        case ast.IfExp(body=one, orelse=other):
            return [*alternatives(one), *alternatives(other)]
        case ast.Dict(values=values):
            return [way for each in values for way in alternatives(each)]
    return [value]


def test_troubleshooting_has_every_line_of_the_status() -> None:
    report = (ROOT / "ganeti_htools/cli/ctl/status.py").read_text("utf-8")
    labels = set(re.findall(r'"  (\w+) {2,}', report))
    assert len(labels) > 10
    cells = re.findall(r"(?m)^\| (`[^|]+) \|", _section("In `htoolsctl status`"))
    quoted = [re.findall(r"`([^`]+)`", cell) for cell in cells]
    assert labels <= {label for label, *_ in quoted}
    sources = [*(ROOT / "ganeti_htools").rglob("*.py"), *(ROOT / "daemon").rglob("*.py")]
    printed = "".join(path.read_text("utf-8") for path in sources)
    assert [word for _, *words in quoted for word in words if word not in printed] == []


def _section(heading: str) -> str:
    return TROUBLESHOOTING.split(f"\n## {heading}\n")[1].split("\n## ")[0]
