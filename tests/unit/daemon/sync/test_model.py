from typing import Any

import pytest

from ganeti_htools.luxi.client import AnswerError
from ganeti_htools.luxi.queries import MissingReason, QueryRow
from ganeti_htools.model.errors import DataError
from htoolsd.sync.model import CONFIGURATION, LIVE, TABLES, Model, set_tables
from tests.property.test_model import read
from tests.support.worlds import world


def model(**changes: Any) -> Model:
    """Return the model of a small cluster, with ``changes`` to the rows of its second node."""
    made = Model()
    for kind in TABLES:
        tables = read(world(), kind)
        for name in set(tables) & {"nodes", "live_nodes"}:
            row = tables[name][1]
            values = {**row.values, **{key: value for key, value in changes.items() if key in row.values}}
            lacking = [key for key, value in values.items() if value is None]
            missing = {**row.missing, **dict.fromkeys(lacking, MissingReason.NO_DATA)}
            tables[name][1] = QueryRow({key: values[key] for key in values if key not in lacking}, missing)
        made = set_tables(made, kind, tables, 0.0)
    return made


@pytest.mark.parametrize(
    ("changes", "silent"),
    [
        ({}, False),
        ({"mfree": None}, True),
        ({"cnos": None}, True),
        ({"mfree": None, "vm_capable": False}, False),
        ({"dtotal": None, "dfree": None, "spfree": None}, False),  # no local storage
        ({"sptotal": None}, False),
        ({"sptotal": None, "ndp/exclusive_storage": True}, True),
    ],
)
def test_node_without_needed_figures_is_offline(changes: dict[str, Any], silent: bool) -> None:
    made = model(**changes)
    assert made.cluster is not None
    assert made.silent == (("two",) if silent else ())
    assert made.cluster.nodes[1].offline is (silent or changes.get("vm_capable") is False)


def test_inconsistent_tables_are_refused_and_change_nothing() -> None:
    made = model()
    tables = read(world(), CONFIGURATION)
    with pytest.raises(DataError, match=r"^Unknown node 'one' for instance"):
        set_tables(made, CONFIGURATION, {**tables, "nodes": tables["nodes"][1:]}, 5.0)
    with pytest.raises(AnswerError, match=r"^nodes: expected each row to have a name$"):
        set_tables(made, CONFIGURATION, {**tables, "nodes": [QueryRow({}, {})]}, 5.0)


def test_ages_are_those_of_the_last_polls() -> None:
    made = set_tables(model(), CONFIGURATION, read(world(), CONFIGURATION), 7.0)
    assert made.ages(10.0) == {CONFIGURATION: 3.0, LIVE: 10.0}


def test_nodes_with_older_figures_are_updating() -> None:
    """A node is updating until live data is polled after the change."""
    before = model()
    assert before.updating == []
    tables = read(world(), CONFIGURATION)
    moved = {**tables["instances"][0].values, "pnode": "two", "snodes": ["three"]}
    tables["instances"][0] = QueryRow(moved, tables["instances"][0].missing)
    after = set_tables(before, CONFIGURATION, tables, 5.0)
    assert after.updating == ["one", "three", "two"]
    same = set_tables(after, CONFIGURATION, tables, 10.0)
    assert same.updating == after.updating
    assert set_tables(same, LIVE, read(world(), LIVE), 4.0).updating == after.updating
    assert set_tables(same, LIVE, read(world(), LIVE), 6.0).updating == []
    tables["instances"].pop(0)
    gone = set_tables(before, CONFIGURATION, tables, 5.0)
    assert gone.updating == ["one", "two"]
