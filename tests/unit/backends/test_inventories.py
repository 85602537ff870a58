"""Inventories of nodes in text and in JSON."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.backends.fields import Fields
from ganeti_htools.backends.inventories import inventories_of, read_inventories, write_inventories
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.inventory import Inventories, Inventory

WHOLE = st.integers(1, 1 << 20)


@st.composite
def inventories(draw: st.DrawFn) -> Inventories:
    names = draw(st.sets(st.sampled_from(("CUSTOM_GPU", "CUSTOM_LICENCE", "MEMORY_MB", "CUSTOM_SPINDLES"))))
    found = []
    for name in sorted(names):
        least = draw(WHOLE)
        most = draw(st.none() | st.integers(least, 1 << 21))
        ratio = draw(st.sampled_from((1.0, 0.5, 16.0, 1e-3)))
        found.append((name, Inventory(draw(WHOLE), draw(WHOLE), least, most, draw(WHOLE), ratio)))
    return tuple(found)


@given(inventories())
def test_what_is_written_is_read_again(there: Inventories) -> None:
    assert read_inventories(write_inventories(there)) == there


def test_only_what_is_unusual_is_written() -> None:
    there = (
        ("CUSTOM_A", Inventory(4)),
        ("CUSTOM_B", Inventory(4, 0, 1, 2)),
        ("MEMORY_MB", Inventory(0, 512)),
    )
    assert write_inventories(there) == "CUSTOM_A,4;CUSTOM_B,4,0,1,2;MEMORY_MB,0,512"
    assert write_inventories((("CUSTOM_A", Inventory(4, step_size=2)),)) == "CUSTOM_A,4,0,1,-,2"
    assert write_inventories((("CUSTOM_A", Inventory(4, allocation_ratio=1.5)),)) == "CUSTOM_A,4,0,1,-,1,1.5"
    assert write_inventories(()) == ""


def test_figures_that_are_not_set() -> None:
    assert read_inventories("CUSTOM_A,4,-,-,-,2") == (("CUSTOM_A", Inventory(4, step_size=2)),)
    assert read_inventories("") == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("CUSTOM_A", "expected CLASS,TOTAL[,RESERVED[,MIN[,MAX[,STEP[,RATIO]]]]], not 'CUSTOM_A'"),
        ("CUSTOM_A,1,2,3,4,5,6,7", "expected CLASS,TOTAL"),
        ("GPU,4", "resource class 'GPU': expected CUSTOM_ and capital letters"),
        ("CUSTOM_gpu,4", "resource class 'CUSTOM_gpu'"),
        ("CUSTOM_A,x", "CUSTOM_A: total: cannot parse string 'x'"),
        ("CUSTOM_A,-", "CUSTOM_A: total: cannot parse string '-'"),
        ("CUSTOM_A,4,0,0", "CUSTOM_A: min_unit: cannot parse string '0', expected a whole number from 1"),
        ("CUSTOM_A,4,0,1,0", "CUSTOM_A: max_unit"),
        ("CUSTOM_A,4,0,1,1,0", "CUSTOM_A: step_size"),
        ("CUSTOM_A,4,0,1,1,1,-2", "CUSTOM_A: allocation_ratio: cannot parse string '-2'"),
        ("CUSTOM_A,4,0,3,2", "CUSTOM_A: max_unit: expected at least the min_unit of 3, got 2"),
        ("CUSTOM_A,1099511627776,0,1,-,1,2", "CUSTOM_A: expected a capacity of at most 1099511627776"),
        ("CUSTOM_A,4;CUSTOM_A,5", "CUSTOM_A appears more than once"),
    ],
)
def test_damage(text: str, problem: str) -> None:
    with pytest.raises(DataError) as error:
        read_inventories(text)
    assert problem in str(error.value)


def told(there: Any) -> Inventories:
    return inventories_of(Fields("node 'a'", {"inventories": there}))


def test_json() -> None:
    given = {"CUSTOM_GPU": {"total": 4, "reserved": 1, "max_unit": 2, "allocation_ratio": 2, "other": "x"}}
    assert told(given) == (("CUSTOM_GPU", Inventory(4, 1, 1, 2, 1, 2.0)),)
    assert told({"MEMORY_MB": {"total": 0, "reserved": 512, "max_unit": None}}) == (
        ("MEMORY_MB", Inventory(0, 512)),
    )


@pytest.mark.parametrize(
    ("there", "problem"),
    [
        ([], "node 'a': key 'inventories': Unable to read JSObject, expected an object, got []"),
        ({"CUSTOM_A": 4}, "node 'a': key 'CUSTOM_A': Unable to read JSObject"),
        ({"CUSTOM_A": {}}, "node 'a': inventory of 'CUSTOM_A': key 'total' not found"),
        ({"CUSTOM_A": {"total": -1}}, "key 'total': Unable to read Int"),
        ({"CUSTOM_A": {"total": 4, "step_size": 0}}, "key 'step_size': Unable to read Int"),
        (
            {"CUSTOM_A": {"total": 4, "allocation_ratio": "x"}},
            "key 'allocation_ratio': Unable to read Double",
        ),
        ({"GPU": {"total": 4}}, "node 'a': resource class 'GPU': expected CUSTOM_"),
    ],
)
def test_damaged_json(there: Any, problem: str) -> None:
    with pytest.raises(DataError) as error:
        told(there)
    assert problem in str(error.value)
