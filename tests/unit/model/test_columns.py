"""Columns that equal others are named, and stay equal until one of them is changed alone."""

import numpy as np

from ganeti_htools.engine.rules import node_rules
from ganeti_htools.model.cluster import Load
from ganeti_htools.model.columns import Columns
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

ONE = instance("one", DiskTemplate.EXT, "a", load=Load(1, 1, 2, 1))


def columns(*instances: object) -> Columns:
    return derive(cluster({"a": 9000, "b": 9000}, [ONE, *instances])).columns  # type: ignore[list-item]


def test_views_of_forthcoming_instances_are_aliases_without_any() -> None:
    aliases = columns().aliases
    assert aliases["u_cpu_forth"] == "u_cpu"
    assert aliases["load_mem"] == aliases["load_net"] == "load_cpu"
    assert "load_dsk" not in aliases
    forthcoming = instance("two", DiskTemplate.EXT, "b", forthcoming=True)
    assert "u_cpu_forth" not in columns(forthcoming).aliases


def test_aliases_are_changed_once() -> None:
    made = columns()
    after = made.map(np.copy)
    assert after.u_cpu_forth is after.u_cpu
    assert after.aliases == made.aliases
    taken = made.take(np.array([1]))
    assert taken.u_cpu_forth is taken.u_cpu


def test_a_column_that_is_replaced_is_no_alias() -> None:
    made = columns()
    assert "u_cpu_forth" not in made.changed(u_cpu=np.zeros(2)).aliases
    assert "u_cpu_forth" not in made.changed(u_cpu_forth=np.zeros(2)).aliases
    both = made.with_figures({"u_cpu": np.full(2, 7)})
    assert both.u_cpu_forth.tolist() == [7, 7]
    assert both.aliases == made.aliases


def test_a_forthcoming_instance_changes_its_view_alone() -> None:
    state = derive(cluster({"a": 9000, "b": 9000}, [ONE]))
    new = state.requested_instance(instance("new", DiskTemplate.EXT, "", forthcoming=True))
    after, _ = node_rules.add_primary(state.columns, new, 0, 0)
    assert (after.u_cpu.tolist(), after.u_cpu_forth.tolist()) == ([2, 1], [3, 2])
    assert "u_cpu_forth" not in after.aliases
    assert after.aliases["load_mem"] == "load_cpu"
    own = state.columns.apart(after.aliases)
    own.put(0, after.take([0]))
    assert (own.u_cpu[0], own.u_cpu_forth[0]) == (2, 3)


def test_loads_that_differ_change_alone() -> None:
    state = derive(cluster({"a": 9000, "b": 9000}, [ONE]))
    row = instance("new", DiskTemplate.EXT, "", load=Load(1, 3, 1, 1))
    after, _ = node_rules.add_primary(state.columns, state.requested_instance(row), 0, 0)
    assert after.load_mem.tolist() == [4, 3]
    assert after.load_cpu.tolist() == after.load_net.tolist() == [2, 1]
    assert (after.aliases.get("load_mem"), after.aliases["load_net"]) == (None, "load_cpu")
