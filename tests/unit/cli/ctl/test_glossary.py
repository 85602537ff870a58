"""``htoolsctl glossary``, and what the glossary has to explain."""

import json
import re
from pathlib import Path

import pytest

from ganeti_htools.cli import htoolsctl
from ganeti_htools.cli.ctl import glossary
from ganeti_htools.engine.rules.components import components
from ganeti_htools.execution.run import Ending
from ganeti_htools.model.columns import SINGLE
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.moves import Operation
from ganeti_htools.model.types import Fail

NAMES = {name for entry in glossary.load_entries() for name in entry.names}


def test_explains_score_components_refusals_and_operations() -> None:
    assert {component.name for component in components(SINGLE)} <= NAMES
    assert {fail.value for fail in Fail} <= NAMES
    assert {operation.value for operation in Operation} <= NAMES


def test_weights_are_those_of_the_components() -> None:
    entries = {name: entry for entry in glossary.load_entries() for name in entry.names}
    for component in components(SINGLE):
        stated = re.search(r"\(weight ([\d.]+)\)", entries[component.name].text)
        assert stated is None or float(stated[1]) == component.weight, component.name


def test_has_each_term_once_and_in_order() -> None:
    entries = glossary.load_entries()
    names = [name for entry in entries for name in entry.names]
    assert len(names) == len({name.lower() for name in names})
    for subject in {entry.subject for entry in entries}:
        firsts = [entry.names[0].lower() for entry in entries if entry.subject == subject]
        assert firsts == sorted(firsts), subject


def test_every_entry_of_the_document_is_parsed() -> None:
    document = (Path(glossary.__file__).parents[3] / "docs/glossary.md").read_text("utf-8")
    assert len(glossary.load_entries()) == len(re.findall(r"(?m)^\* ", document)) > 100


@pytest.mark.parametrize("term", ["free_mem_cv", "Free-Mem-CV", "free mem cv"])
def test_finds_term_whatever_its_case_and_hyphens(term: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert htoolsctl.main(["glossary", term]) == 0
    assert capsys.readouterr().out.startswith("free_mem_cv: ")


def test_names_closest_terms_of_an_unknown_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert htoolsctl.main(["glossary", "jobst"]) == 1
    assert capsys.readouterr().err.startswith("htoolsctl: glossary: jobst: unknown term; closest: jobset, ")


def test_lists_all_terms_by_subject(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert htoolsctl.main(["glossary"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Cluster"
    assert all(
        any(line.startswith(f"  {entry.names[0]}") for line in lines) for entry in glossary.load_entries()
    )
    assert max(map(len, lines)) <= 60


def test_prints_entries_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert htoolsctl.main(["glossary", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert {name for entry in entries for name in entry["names"]} == NAMES
    assert htoolsctl.main(["glossary", "claim", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["term"] == "claim"


def test_is_found_where_the_package_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "lib/htoolsd/python/ganeti_htools/cli/ctl/glossary.py"
    monkeypatch.setattr(glossary, "__file__", str(module))
    with pytest.raises(DataError, match="cannot be read"):
        glossary.load_entries()
    (tmp_path / "share/htoolsd").mkdir(parents=True)
    (tmp_path / "share/htoolsd/glossary.md").write_text("## Things\n\n* **thing**: a `thing`.\n")
    assert glossary.load_entries() == [glossary.GlossaryEntry(("thing",), "Things", "a thing.")]


def test_explains_endings_states_and_conditions() -> None:
    """What reports and ``--json`` name: how runs end, how plans stand, what holds policies back."""
    assert {ending.value for ending in Ending} <= NAMES
    page = (Path(glossary.__file__).parents[3] / "man/htools-policies.7.md").read_text("utf-8")
    conditions = re.findall(r"(?m)^\| (\w+) \|", page.split("# CONDITIONS")[1].split("\n# ")[0])[1:]
    assert len(conditions) > 10
    assert {f"{name} condition" for name in conditions} <= NAMES
