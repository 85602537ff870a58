"""Requests that something went wrong with."""

import copy
import functools
import json
from typing import Any

from hypothesis import strategies as st

from tests.support.cases import TYPES, case
from tests.support.clusters import Json
from tests.support.storage_units import case_with_units

DEEP = "<deep>"
VALUES: tuple[Any, ...] = (
    *(None, True, False, "", "x", "a\nb", "\0", "é" * 3, "x" * 100_000, DEEP),
    *(-1, 0, 1, 2, 7, 2**31, 2**40 + 1, 2**63, 2**64, 2**70, -(2**70)),
    *(0.5, -0.5, 1e-320, 1e300, -1e300, float("nan"), float("inf")),
    *([], {}, [[]], [None], [{}], {"": {}}, {"x": None}),
    *("node1.example.org", "node99.example.org", "inst1.example.org", "group1", "drbd", "plain", "up"),
    *(["node1.example.org"], ["node99.example.org"], ["node1.example.org"] * 2),
    *(["node2.example.org", "node1.example.org"], [f"node{i}.example.org" for i in (1, 2, 3)]),
    *(["inst1.example.org"] * 2, ["x" * 100_000]),
    *("ssdvg", "lvm-vg", ["lvm-vg", "ssdvg", []], ["lvm-pv", "x"], ["zfs", "x"], ["drbd", "a\nb", [None]]),
    *([{"sunit": ["lvm-vg", "ssdvg"], "free": -1, "total": 1}] * 2,),
)


@functools.cache
def text(kind: str, seed: int) -> str:
    """A request without damage."""
    return (case_with_units if seed % 2 else case)(seed, kind).text


requests = st.builds(text, st.sampled_from(TYPES), st.integers(0, 9))


@st.composite
def spots(draw: st.DrawFn, content: Json) -> tuple[Any, Any]:
    """A place in a document: a container that is not empty, and a key of it."""
    container: Any = content
    while True:
        keys = list(container) if isinstance(container, dict) else list(range(len(container)))
        key = draw(st.sampled_from(keys))
        if not (isinstance(container[key], dict | list) and container[key] and draw(st.integers(0, 5))):
            return container, key
        container = container[key]


@st.composite
def wrong_contents(draw: st.DrawFn) -> str:
    """Valid JSON, and more or less what it should be."""
    content: Json = json.loads(draw(requests))
    for _ in range(draw(st.integers(1, 3))):
        if not content:
            break
        container, key = draw(spots(content))
        match draw(st.sampled_from(("replace", "replace", "drop", "rename", "exchange", "repeat"))):
            case "drop":
                del container[key]
            case "rename" if isinstance(container, dict):
                container[draw(st.sampled_from(("x", "", "node1.example.org", "a\nb")))] = container.pop(key)
            case "exchange":
                other, where = draw(spots(content))
                container[key] = copy.deepcopy(other[where])
            case "repeat" if isinstance(container, list):
                container.append(container[key])
            case _:
                container[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
    nested = draw(st.sampled_from((300, 5000, 200_000)))
    return json.dumps(content).replace(f'"{DEEP}"', "[" * nested + "]" * nested)


@st.composite
def wrong_bytes(draw: st.DrawFn) -> bytes:
    """A request of which bytes are missing, changed or there twice."""
    data = bytearray(draw(requests).encode())
    for _ in range(draw(st.integers(1, 2))):
        where = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(("truncate", "drop", "change", "repeat"))):
            case "truncate":
                del data[where:]
            case "drop":
                del data[where : where + draw(st.integers(1, 200))]
            case "change":
                data[where : where + 1] = draw(st.binary(max_size=1) | st.sampled_from((b'"', b"}", b",")))
            case _:
                data[where:where] = data[where : where + draw(st.integers(1, 200))]
    return bytes(data)


damaged = wrong_contents().map(str.encode) | wrong_bytes()
