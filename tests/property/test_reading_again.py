"""Reading a request with the last ones in mind is reading it without."""

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ganeti_htools.backends import again, iallocator
from ganeti_htools.backends.iallocator import Message
from ganeti_htools.decision import Decision, Memory, decide
from ganeti_htools.engine.options import Options
from ganeti_htools.model.errors import DataError
from tests import messages
from tests.cases import case
from tests.clusters import Json, Shape, cluster, live_changes
from tests.property.damage import damaged, requests

ALLOCATE = messages.allocate("new")
TRICKY = (
    "é字",
    "\ud83d\ude00",
    '}, "',
    '"nodes": {',
    '}, "instances": {',
    '"}}, "x": {',
    "\\",
    '\\"',
    "\x00",
)


def read(data: bytes, memory: again.Memory | None = None) -> Message | str:
    """The message or the error."""
    try:
        return memory.read(data) if memory else iallocator.read(data)
    except DataError as error:
        return str(error)


@st.composite
def varied(draw: st.DrawFn) -> bytes:
    """A request, with other figures, another order, strange names or another notation than usual."""
    content: Json = json.loads(draw(requests))
    for change in draw(st.lists(st.sampled_from(("live", "order", "name", "tag", "hypervisor")), max_size=3)):
        section: Json = content[draw(st.sampled_from(("nodes", "instances", "nodegroups")))]
        match change:
            case "live":
                content = live_changes(content, random.Random(draw(st.integers(0, 3))))
            case "order":
                members = draw(st.permutations(list(section.items())))
                section.clear()
                section.update(members)
            case "name" if section:
                section[draw(st.sampled_from(TRICKY))] = section.pop(draw(st.sampled_from(list(section))))
            case "tag" if section:
                section[draw(st.sampled_from(list(section)))]["tags"] = [draw(st.sampled_from(TRICKY))]
            case "hypervisor":
                content["enabled_hypervisors"] = [draw(st.sampled_from(("kvm", "xen-pvm")))]
    options: dict[str, Any] = draw(
        st.sampled_from(
            (
                {},
                {"ensure_ascii": False},
                {"indent": 2},
                {"separators": (",", ":")},
                {"sort_keys": True},
            )
        )
    )
    return json.dumps(content, **options).encode("utf-8", "surrogatepass")


unhurried = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=100, suppress_health_check=unhurried)
@given(texts=st.lists(varied() | damaged, min_size=1, max_size=4))
def test_any_sequence(texts: list[bytes]) -> None:
    memory = again.Memory()
    for text in [*texts, *texts]:
        assert read(text, memory) == read(text)


EDGES = (b'"nodegroups": {', b'}, "nodes": {', b'}, "', b'}, "instances": {', b'}, "request": {')


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("new", [b"", b'"', b"}", b"{", b"x", b" ", b"\xed", b'"a": {}, '])
def test_damage_at_the_edge_of_a_member(edge: bytes, new: bytes) -> None:
    whole = messages.encode(messages.message(cluster(1, Shape(nodes=3, instances=4)), ALLOCATE)).encode()
    start = whole.index(edge, whole.index(b'"nodes": {') if edge == b'}, "' else 0)
    memory = again.Memory()
    for where in range(start - 1, start + len(edge) + 1):
        for drop in (0, 1):
            broken = whole[:where] + new + whole[where + drop :]
            for text in (whole, broken):
                assert read(text, memory) == read(text)


def test_a_name_that_stands_twice() -> None:
    asked = case(3, "allocate")
    name, node = next(iter(asked.data["nodes"].items()))
    twin = json.dumps({name: node | {"free_memory": 1}})[1:-1]
    text = asked.text.replace('"nodes": {', f'"nodes": {{{twin}, ').encode()
    message = read(text)
    assert isinstance(message, Message)
    assert read(text, again.Memory()) == message


@settings(max_examples=40, suppress_health_check=unhurried)
@given(texts=st.lists(varied(), min_size=2, max_size=3))
def test_decisions_are_the_same(texts: list[bytes]) -> None:
    memory = Memory()
    for text in texts:
        assert decided(text, memory) == decided(text, None)


def decided(text: bytes, memory: Memory | None) -> Decision | str:
    """The decision or the error."""
    try:
        return decide(text, Options(), memory)
    except DataError as error:
        return str(error)
