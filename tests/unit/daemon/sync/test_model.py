from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.luxi.client import AnswerError
from ganeti_htools.luxi.queries import MissingReason, QueryRow
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.node_state import NodeState
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.simulator.logical_units import carry_out
from ganeti_htools.simulator.world import World
from htoolsd.sync.model import CONFIGURATION, LIVE, TABLES, Model, set_tables
from tests.property.test_model import read
from tests.support.worlds import migrate, world


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
    assert (made.cluster.nodes[1].state is NodeState.SILENT) == silent
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


def polled(now: World, *nodes: str) -> dict[str, list[QueryRow]]:
    """Return what a poll of these nodes reads."""
    tables, keys = read(now, LIVE), {"live_nodes": "name", "live_instances": "pnode"}
    return {name: [row for row in tables[name] if row.values[key] in nodes] for name, key in keys.items()}


def free(made: Model) -> dict[str, int]:
    assert made.cluster is not None
    return {node.name: node.f_mem for node in made.cluster.nodes}


def test_poll_of_some_nodes_counts_for_these() -> None:
    before, moved = model(), carry_out(world(), migrate("mirrored"))[0]
    after = set_tables(before, CONFIGURATION, read(moved, CONFIGURATION), 5.0)
    one = set_tables(after, LIVE, polled(moved, "one"), 6.0, ["one"])
    assert (after.updating, one.updating) == (["one", "two"], ["two"])
    both = set_tables(one, LIVE, polled(moved, "two"), 7.0, ["two"])
    assert (both.updating, both.asked[LIVE]) == ([], 0.0)
    for each in (after, one, both):
        assert free(each) == {node.name: node.f_mem for node in moved.cluster.nodes}
    # A poll of all nodes that began before the change ends late.
    late = set_tables(both, LIVE, read(world(), LIVE), 4.0)
    assert (late.updating, free(late)) == (["one", "two"], free(both))
    # A poll of some nodes ends after one of all nodes that began later.
    full = set_tables(late, LIVE, read(moved, LIVE), 9.0)
    assert set_tables(full, LIVE, polled(world(), "one", "two"), 8.0, ["one", "two"]) is full


@pytest.mark.parametrize("template", [DiskTemplate.DRBD, DiskTemplate.EXT])
def test_memory_of_an_instance_on_a_wrong_node_is_not_followed(template: DiskTemplate) -> None:
    """It was not on the primary. Where it was is where the instance is after the clean-up."""
    name = {DiskTemplate.DRBD: "mirrored", DiskTemplate.EXT: "shared"}[template]
    start = world()
    row = start.instance(name)
    assert row is not None
    made = Model()
    for kind in TABLES:
        made = set_tables(
            made, kind, read(start.with_instance(replace(row, status=Status.WRONG_NODE)), kind), 0.0
        )
    cleaned = replace(row, pnode="two", snode="one" if row.snode else None)
    assert free(
        set_tables(made, CONFIGURATION, read(start.with_instance(cleaned), CONFIGURATION), 5.0)
    ) == free(made)


def test_status_of_an_unchanged_instance_stays_after_a_poll_of_some_nodes() -> None:
    """Ganeti finds an instance on a wrong node only where it asks both."""
    start = world()
    row = start.instance("mirrored")
    assert row is not None
    wrong = start.with_instance(replace(row, status=Status.WRONG_NODE))
    made = set_tables(model(), LIVE, read(wrong, LIVE), 1.0)
    down = start.with_instance(replace(row, status=Status.ERROR_DOWN))
    for before, known in ((made, Status.WRONG_NODE), (model(), Status.RUNNING)):
        after = set_tables(before, LIVE, polled(down, "one"), 2.0, ["one"])
        assert after.cluster is not None
        assert after.cluster.instances[0].status is known
    both = set_tables(model(), LIVE, polled(down, "one", "two"), 2.0, ["one", "two"])
    assert both.cluster is not None
    assert both.cluster.instances[0].status is Status.ERROR_DOWN


def test_row_of_an_instance_that_has_left_a_polled_node_goes() -> None:
    start = world()
    gone = replace(start, cluster=replace(start.cluster, instances=start.cluster.instances[1:]))
    after = set_tables(model(), LIVE, polled(gone, "one"), 1.0, ["one"])
    assert [row.values["name"] for row in after.tables["live_instances"].rows] == ["shared", "stuck"]
