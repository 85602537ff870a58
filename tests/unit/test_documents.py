"""What documents and docstrings refer to is there."""

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli import hregroup
from ganeti_htools.engine.rules import placements
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.derive import derive
from ganeti_htools.model.storage import DesiredUnit, StorageType
from tests.support.storage_units import taken

TOP = Path(__file__).parents[2]
# A path is written from the top, or below one of these.
ROOTS = (
    *(TOP, TOP / "ganeti_htools", TOP / "daemon"),
    TOP / "tests" / "support",
    *(TOP / "ganeti_htools" / "engine" / room for room in ("balancing", "groups")),
)
PACKAGES = (TOP / "ganeti_htools", TOP / "daemon" / "htoolsd")
PLACEHOLDER = re.compile("NAME|SUBJECT")


def test_the_example_of_storage_is_as_it_is_told() -> None:
    section = (TOP / "docs/storage.md").read_text("utf-8").split("## SSD, HDD and Ceph")[1]
    example = re.findall(r"(?:(?:    .*)?\n)+", section[section.index("    ") :])[0]
    cluster = text.parse(textwrap.dedent(example).strip() + "\n", "example")
    figures = taken(cluster)
    assert len(figures) == 7
    assert all(figure == disks for figure, disks in figures.values())
    state = derive(cluster)
    ssd = DesiredUnit(StorageType.LVM_VG, "ssdvg")
    new = replace(cluster.instances[0], name="new", dsk=10240, disks=(Disk(10240, None, ssd),))
    nodes, everywhere = np.arange(4), np.ones(1, np.bool_)
    fits = placements.allocate_one(state, state.requested_instance(new), nodes, everywhere).codes == FITS
    assert state.names(np.flatnonzero(fits)) == ["node1", "node2"]
    mail = next(row for row, instance in enumerate(cluster.instances) if instance.name == "mail")
    elsewhere = np.array([0, 2, 3])
    fits = placements.failover_to(state, state.instance(mail), elsewhere, everywhere).codes == FITS
    assert state.names(elsewhere[fits]) == ["node1", "node3"]


def test_the_example_of_node_groups_is_as_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    section = (TOP / "docs/node-groups.md").read_text("utf-8").split("## An example")[1].split("\n## ")[0]
    blocks = [textwrap.dedent(block) for block in re.findall(r"(?:    .*\n|\n(?=    ))+", section)]
    racks, *rest = [block.strip("\n") for block in blocks]
    (tmp_path / "racks.data").write_text(f"{racks}\n\n")
    assert len(rest) == 3
    for block in rest:
        command, _, *told = block.splitlines()
        program, *argv = command.replace("racks.data", str(tmp_path / "racks.data")).split()
        assert (program, hregroup.main(argv)) == ("hregroup", 0)
        assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == told


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "docs/architecture.md"])
def test_files_that_are_named_exist(document: str) -> None:
    text = (TOP / document).read_text("utf-8")
    named = set(re.findall(r"(?<![\w./-])[a-z][\w./-]*\.(?:py|md|cfg|toml|txt|service)\b", text))
    folders = {path.name for root in ROOTS for path in root.iterdir() if path.is_dir()}
    named |= {name for name in re.findall(r"`([\w./-]+/[\w./-]*)`", text) if name.split("/")[0] in folders}
    named = {name for name in named if not PLACEHOLDER.search(name) and f"/{name}" not in text}
    assert named
    assert [name for name in sorted(named) if not any((root / name).exists() for root in ROOTS)] == []


def defined(tree: ast.Module) -> Iterator[str]:
    """Names of all functions, classes and assigned variables of a module, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def test_docstrings_refer_to_what_there_is() -> None:
    """In ``:mod:`` the module, in the others at least the last name."""
    sources = [path for package in PACKAGES for path in package.rglob("*.py")]
    modules = {
        path.relative_to(root).with_suffix("")
        for root in (TOP, TOP / "daemon")
        for path in sources
        if path.is_relative_to(root)
    }
    dotted = {"." + ".".join(path.parts) for path in modules}
    names = {name for path in sources for name in defined(ast.parse(path.read_text("utf-8")))}
    missing = []
    for path in sources:
        for role, target in re.findall(r":(mod|func|meth|class):`([^`]+)`", path.read_text("utf-8")):
            known = (
                any(module.endswith("." + target.lstrip(".")) for module in dotted)
                if role == "mod"
                else target.rpartition(".")[2] in names
            )
            if not known:
                missing.append(f"{path.relative_to(TOP)}: {target}")
    assert missing == []
