"""Reading a request with the last ones in mind is reading it without."""

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ganeti_htools.backends import iallocator, incremental
from ganeti_htools.backends.iallocator import Message
from ganeti_htools.deciding.decision import Cache, Response, respond
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.options import PlacementOptions
from tests.property.damage import damaged, requests
from tests.support import messages
from tests.support.clusters import Json, Shape, cluster, live_changes
from tests.support.storage_units import with_four_units

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


def read(data: bytes, reader: incremental.RequestReader | None = None) -> Message | str:
    """The message or the error."""
    try:
        return reader.read(data) if reader else iallocator.read(data)
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


@settings(max_examples=30, suppress_health_check=unhurried)
@given(texts=st.lists(varied() | damaged, min_size=1, max_size=4))
def test_any_sequence_of_requests_is_read_like_each_alone(texts: list[bytes]) -> None:
    reader = incremental.RequestReader()
    for text in [*texts, *texts]:
        assert read(text, reader) == read(text)


EDGES = (b'"nodegroups": {', b'}, "nodes": {', b'}, "', b'}, "instances": {', b'}, "request": {')


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("new", [b"", b'"', b"}", b"{", b"x", b" ", b"\xed", b'"a": {}, '])
def test_damage_at_the_edge_of_a_member_is_noticed(edge: bytes, new: bytes) -> None:
    whole = messages.encode(messages.message(cluster(1, Shape(nodes=3, instances=4)), ALLOCATE)).encode()
    start = whole.index(edge, whole.index(b'"nodes": {') if edge == b'}, "' else 0)
    reader = incremental.RequestReader()
    for where in range(start - 1, start + len(edge) + 1):
        for drop in (0, 1):
            broken = whole[:where] + new + whole[where + drop :]
            for text in (whole, broken):
                assert read(text, reader) == read(text)


@pytest.mark.parametrize("field", ["storage", "tags", "offline", "ndparams", "group"])
def test_a_node_or_instance_is_known_again_wherever_its_fields_stand(field: str) -> None:
    """What stands behind the only field that is an object is no member."""
    data, request = with_four_units(cluster(1, Shape(nodes=3, instances=4)), ALLOCATE)
    nodes = {
        name: {**{key: node[key] for key in node if key != field}, field: node[field]}
        for name, node in data["nodes"].items()
    }
    text = messages.encode(messages.message({**data, "nodes": nodes}, request)).encode()
    reader = incremental.RequestReader()
    first, again = reader.read(text), reader.read(text)
    assert first == iallocator.read(text)
    assert list(map(id, again.cluster.nodes)) == list(map(id, first.cluster.nodes))
    assert list(map(id, again.cluster.instances)) == list(map(id, first.cluster.instances))


Pairs = list[tuple[str, Any]]


def written(value: Any) -> str:
    """JSON of objects that are lists of pairs, so that names may stand in them twice."""
    if not isinstance(value, list) or not all(isinstance(item, tuple) for item in value):
        return json.dumps(value)
    return "{" + ", ".join(f"{json.dumps(name)}: {written(inner)}" for name, inner in value) + "}"


SMALL = messages.message(cluster(1, Shape(nodes=3, instances=4)), ALLOCATE)
SECTIONS = ("nodegroups", "nodes", "instances", "request")


@st.composite
def rearranged(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A request whose members stand twice, elsewhere, or within others; and what is read of it: the first."""
    content: Pairs = [
        (name, list(value.items()) if isinstance(value, dict) else value) for name, value in SMALL.items()
    ]
    sections = [name for name in SECTIONS if draw(st.booleans())]
    for _ in range(draw(st.integers(0, 3))):
        within = draw(st.sampled_from([content, *(dict(content)[name] for name in SECTIONS[:3])]))
        within = within if isinstance(within, list) else content
        where = draw(st.integers(0, len(within)))
        match draw(st.sampled_from(("again", "number", "all within", "some within", "moved"))):
            case "again" if within:
                within.insert(where, draw(st.sampled_from(within)))
            case "number":
                position = draw(st.integers(0, 3))
                within.insert(where, (SECTIONS[position], draw(st.sampled_from((position, 0, {}, None)))))
            case "all within":
                content.insert(draw(st.integers(0, len(content))), ("x", list(SMALL.items())))
            case "some within":
                inner = [(name, draw(st.sampled_from(({}, SMALL[name])))) for name in sections]
                within.insert(where, (draw(st.sampled_from(("x", "y"))), inner))
            case "moved" if within:
                within.insert(where, within.pop(draw(st.integers(0, len(within) - 1))))
    members = dict(reversed(content))
    lost = any(
        isinstance(section, list) and len(dict(section)) < len(section)
        for section in (members.get(name) for name in SECTIONS[:3])
    )
    return written(content).encode(), b"" if lost else written(firsts(content)).encode()


def firsts(members: Any) -> Any:
    """A document without members that stand behind one of the same name."""
    if not isinstance(members, list) or not all(isinstance(item, tuple) for item in members):
        return members
    first = dict(reversed(members))
    return [(name, firsts(first[name])) for name in dict(members)]


@settings(max_examples=60, suppress_health_check=unhurried)
@given(texts=st.lists(rearranged(), min_size=1, max_size=4))
def test_sections_twice_elsewhere_and_within_others(texts: list[tuple[bytes, bytes]]) -> None:
    reader = incremental.RequestReader()
    reader.read(messages.encode(SMALL).encode())
    for text, first in texts:
        plain = read(text)
        assert read(text, reader) == plain
        assert plain == read(first) if first else isinstance(plain, str)


WHOLE = messages.encode(SMALL).strip()
NODE, INSTANCE = next(iter(SMALL["nodes"])), next(iter(SMALL["instances"]))
GROUP = next(iter(SMALL["nodegroups"]))
HARMLESS = (
    WHOLE[:-1] + ', "nodes": 1}',
    WHOLE[:-1] + ', "nodes": {}}',
    WHOLE[:-1] + ', "request": {}}',
    WHOLE[:-1] + ', "nodegroups": {}, "instances": {}, "request": {}, "cluster_tags": 7}',
    WHOLE.replace('"offline": false', '"offline": false, "offline": true'),
    WHOLE.replace('"memory": 1024', '"memory": 1024, "memory": 1'),
    WHOLE.replace('"memory": 1024', '"memory": 1024, "\\u006demory": 1'),
    '{"unknown": {"a": 1, "a": 1}, ' + WHOLE[1:],
)


@pytest.mark.parametrize("text", HARMLESS)
def test_the_first_of_a_name_counts(text: str) -> None:
    reader = incremental.RequestReader()
    whole = reader.read(WHOLE.encode())
    for each in (None, reader):
        assert read(text.encode(), each) == whole


@pytest.mark.parametrize(
    ("section", "name"), [("nodes", NODE), ("instances", INSTANCE), ("nodegroups", GROUP)]
)
@pytest.mark.parametrize("changed", [True, False])
def test_a_node_group_or_instance_that_stands_twice_is_refused(
    section: str, name: str, changed: bool
) -> None:
    twin = json.dumps({name: {} if changed else SMALL[section][name]})[1:-1]
    text = WHOLE.replace(f'"{section}": {{', f'"{section}": {{{twin}, ').encode()
    reader = incremental.RequestReader()
    reader.read(WHOLE.encode())
    for each in (None, reader):
        assert f"key '{section}': the name '{name}' stands twice" in str(read(text, each))


def test_numbers_are_the_same_beside_a_name_that_stands_twice() -> None:
    text = WHOLE.replace('"memory": 1024', '"memory": 1024.0, "x": 1e3, "y": ' + "9" * 300)
    assert read(('{"a": 1, "a": 1, ' + text[1:]).encode()) == read(text.encode())


def test_known_parts_are_reused() -> None:
    reader = incremental.RequestReader()
    first = reader.read(WHOLE.encode()).cluster
    other = json.loads(WHOLE)
    other["nodes"][NODE]["free_memory"] = 1
    other["instances"] = dict(reversed(other["instances"].items()))
    second = reader.read(json.dumps(other).encode()).cluster
    known = {id(row) for row in (*first.groups, *first.nodes, *first.instances)}
    assert all(id(row) in known for row in (*second.groups, *second.instances))
    assert [node.name for node in second.nodes if id(node) not in known] == [NODE]


NUMBERS = ', "nodegroups": 0, "nodes": 1, "instances": 2'


@pytest.mark.parametrize(
    "text",
    [
        '{"x": ' + WHOLE + ", " + json.dumps(SMALL | {"nodegroups": 0, "nodes": 1, "instances": 2})[1:],
        '{"x": ' + WHOLE + NUMBERS + "}",
        '{"x": ' + WHOLE + NUMBERS + ', "request": {}}',
        '{"x": ' + WHOLE[:-1] + NUMBERS + "}}",
        '{"x": [' + WHOLE + "]" + NUMBERS + "}",
        "[" + WHOLE + "]",
    ],
)
def test_sections_of_an_object_within_are_not_those_of_the_request(text: str) -> None:
    reader = incremental.RequestReader()
    reader.read(WHOLE.encode())
    plain = read(text.encode())
    assert read(text.encode(), reader) == plain
    assert isinstance(plain, str)


@settings(max_examples=12, suppress_health_check=unhurried)
@given(texts=st.lists(varied(), min_size=2, max_size=3))
def test_decisions_are_the_same(texts: list[bytes]) -> None:
    cache = Cache()
    for text in texts:
        assert decided(text, cache) == decided(text, None)


def decided(text: bytes, cache: Cache | None) -> Response | str:
    """The decision or the error."""
    try:
        return respond(text, PlacementOptions(), cache)
    except DataError as error:
        return str(error)
