"""Declarations of resources, and the modules that cannot take a new one."""

import subprocess
import sys
from textwrap import dedent

import pytest

from ganeti_htools.engine.rules import node_rules, resources
from ganeti_htools.engine.rules.limits import PRIMARY, SECONDARY, NodeRole
from ganeti_htools.engine.rules.resources import RESOURCES, Resource
from ganeti_htools.model.columns import CHANGING, FORTHCOMING, SINGLE

NEW = Resource("f_gpus", (PRIMARY,), lambda _columns, _change: 1)


def test_every_column_that_changes_is_declared() -> None:
    settled = {view for resource in RESOURCES for view in resource.views(SINGLE, forthcoming=False)}
    assert settled == set(CHANGING) - {"fail_n1"}


def test_forthcoming_instances_change_their_own_views_only() -> None:
    changed = {view for resource in RESOURCES for view in resource.views(SINGLE, forthcoming=True)}
    assert changed == {*FORTHCOMING.values(), "f_mem_forth", "conflicts"}


def test_a_resource_without_a_column_is_refused() -> None:
    with pytest.raises(ValueError, match="f_gpus"):
        resources.check_declared((*RESOURCES, NEW), SINGLE)


def test_a_column_that_two_resources_declare_is_refused() -> None:
    with pytest.raises(ValueError, match="f_dsk"):
        resources.check_declared((*RESOURCES, NEW._replace(figure="f_dsk")), SINGLE)


def test_a_column_that_no_resource_declares_is_refused() -> None:
    with pytest.raises(ValueError, match="location"):
        resources.check_declared(tuple(each for each in RESOURCES if each.figure != "location"), SINGLE)


def test_module_that_misses_a_hard_limit_is_refused() -> None:
    program = """
        from dataclasses import replace
        from ganeti_htools.engine.rules import resources
        resources.LIMITS += (resources.SPINDLES._replace(figure="f_gpus"),)
        import ganeti_htools.engine.redundancy.simulate
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "does not know the limits of f_gpus" in done.stderr


def test_order_of_limits() -> None:
    """It decides which reason is told; the figures of a full node, then those with forthcoming instances."""

    def order(role: NodeRole, force: bool = False) -> list[str]:
        return [
            figure
            for _, figure in node_rules.limits(SINGLE, role, forthcoming=False, wants=(True,), force=force)
        ]

    storage = ["f_dsk", "f_dsk", "f_spindles", "inst_spindles"]
    forthcoming = [f"{name}_forth" for name in storage]
    assert order(PRIMARY) == [
        *("unallocated", *storage, "unallocated", "u_cpu", "conflicts"),
        *("f_mem_forth", *forthcoming, "u_cpu_forth"),
    ]
    assert order(SECONDARY) == [*storage, "unallocated", "unallocated", *forthcoming, "f_mem_forth"]
    assert order(PRIMARY, force=True) == ["unallocated", "f_dsk", "f_spindles"]
    assert order(SECONDARY, force=True) == ["f_dsk", "f_spindles"]
