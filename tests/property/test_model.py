"""The daemon's model: generations go up when, and only when, something changed; the rest stays the same."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ganeti_htools.backends import luxi
from ganeti_htools.luxi import queries, relayed
from ganeti_htools.luxi.framing import decode, encode
from ganeti_htools.luxi.queries import ClusterAnswers, QueryRow
from ganeti_htools.model.cluster import Cluster, Instance, Nic, Node
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.simulator import tables
from ganeti_htools.simulator.fields import QueryTable
from ganeti_htools.simulator.queries import cluster_info, query
from ganeti_htools.simulator.world import World, lose_node, restore_node, with_role
from htoolsd.sync.model import CONFIGURATION, LIVE, TABLES, Model, set_tables
from tests.support.worlds import instance, node, world

NETWORKS = ("net1", "net2")
NAMES = ("one", "two", "three", "boss")


@dataclass(frozen=True)
class Step:
    """Something that happens, and which kind of data is read then."""

    kind: str
    what: str
    name: str
    number: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(list(TABLES)),
        st.sampled_from(
            [
                *("nothing", "lose", "find", "offline", "online", "memory", "stop", "move", "add", "tag"),
                *("add node", "reverse", "rename group", "connect", "plug"),
            ]
        ),
        st.sampled_from(NAMES[:3]),
        st.integers(1, 3),
    ),
    max_size=12,
)


def named(world: World, name: str) -> Instance:
    row = world.instance(name)
    assert row is not None
    return row


def after(world: World, step: Step) -> World:
    rows, cluster = world.cluster.instances, world.cluster
    touched = {"stop": named(world, "mirrored").pnode, "move": named(world, "shared").pnode}
    answering = world.answers(touched.get(step.what, "boss")) and world.answers(step.name)
    if step.what in ("stop", "move", "add") and not answering:
        return world  # that cannot happen
    match step.what:
        case "lose":
            return lose_node(world, step.name)
        case "find":
            return restore_node(world, step.name)
        case "offline" | "online":
            return with_role(world, step.name, offline=step.what == "offline", drained=False)
        case "memory":
            row = world.node(step.name)
            assert row is not None
            return world.with_nodes([replace(row, f_mem=1000 * step.number)])
        case "stop":
            return world.with_instance(
                replace(rows[0], status=(Status.DOWN, Status.RUNNING)[step.number % 2])
            )
        case "move":
            return world.with_instance(replace(named(world, "shared"), pnode=step.name))
        case "add":
            new = instance(f"new{step.number}", DiskTemplate.PLAIN, step.name)
            changed: tuple[Any, ...] = (*(row for row in rows if row.name != new.name), new)
            return replace(world, cluster=replace(cluster, instances=changed))
        case "tag":
            return replace(world, cluster=replace(cluster, tags=(f"t{step.number}",)))
        case "add node":
            new_node = node(f"node{step.number}")
            nodes = (*(row for row in cluster.nodes if row.name != new_node.name), new_node)
            return replace(world, cluster=replace(cluster, nodes=nodes))
        case "reverse":
            return replace(world, cluster=replace(cluster, instances=rows[::-1]))
        case "rename group":
            group = replace(cluster.groups[0], name=f"g{step.number}")
            return replace(world, cluster=replace(cluster, groups=(group,)))
        case "connect":
            group = replace(cluster.groups[0], networks=NETWORKS[step.number - 1 :])
            return replace(world, cluster=replace(cluster, groups=(group,)))
        case "plug":
            nics = tuple(Nic(network=network) for network in NETWORKS[step.number - 1 :])
            return world.with_instance(replace(named(world, "shared"), nics=nics))
    return world


def rows(
    world: World, table: QueryTable, what: str, objects: Iterable[Any], fields: Sequence[str]
) -> list[QueryRow]:
    told: Any = decode(encode(query(world, table, objects, fields, lambda _world, _row: True))[:-1])
    return queries.rows(what, fields, told)


def read(world: World, kind: str) -> dict[str, list[QueryRow]]:
    """What luxid tells of a world."""
    cluster = world.cluster
    if kind == LIVE:
        return {
            "live_nodes": rows(world, tables.NODES, "node", cluster.nodes, queries.NODE_LIVE_FIELDS),
            "live_instances": rows(
                world, tables.INSTANCES, "instance", cluster.instances, queries.INSTANCE_LIVE_FIELDS
            ),
        }
    info: Any = decode(encode(cluster_info(world))[:-1])
    return {
        "cluster": [QueryRow({key: info[key] for key in queries.INFO_KEYS}, {})],
        "groups": rows(world, tables.GROUPS, "group", cluster.groups, queries.GROUP_FIELDS),
        "networks": _networks(world),
        "nodes": rows(world, tables.NODES, "node", cluster.nodes, queries.NODE_CONFIG_FIELDS),
        "instances": rows(
            world, tables.INSTANCES, "instance", cluster.instances, queries.INSTANCE_CONFIG_FIELDS
        ),
    }


def _networks(world: World) -> list[QueryRow]:
    return rows(world, tables.NETWORKS, "network", tables.networks(world), queries.NETWORK_FIELDS)


def assert_kept(before: Sequence[Any], now: Sequence[Any]) -> None:
    """What is equal to what was there before is that object."""
    known = {row.name if isinstance(row, Node | Instance) else row.values["name"]: row for row in before}
    for row in now:
        old = known.get(row.name if isinstance(row, Node | Instance) else row.values["name"])
        assert old is row or old != row


@given(STEPS)
@example(
    [
        Step(CONFIGURATION, "lose", "two", 1),
        Step(LIVE, "nothing", "two", 1),
        Step(CONFIGURATION, "offline", "two", 1),
    ]
)
def test_generation_grows_only_with_change_and_equal_rows_are_same_objects(steps: list[Step]) -> None:
    now, model = world(), Model()
    told = {**read(now, CONFIGURATION), **read(now, LIVE)}
    for kind in TABLES:
        model = set_tables(model, kind, told, 0.0)
    assert set(model.generations.values()) == {1}
    for number, step in enumerate(steps, 1):
        now = after(now, step)
        fresh = read(now, step.kind)
        before, model = model, set_tables(model, step.kind, fresh, float(number))
        for name in before.generations:
            changed = name in fresh and fresh[name] != told[name]
            assert model.generations[name] - before.generations[name] == changed
            assert_kept(before.tables[name].rows, model.tables[name].rows)
        told |= fresh
        assert model.asked == {**before.asked, step.kind: float(number)}
        assert before.answers is not None
        assert model.answers is not None
        assert before.cluster is not None
        assert model.cluster is not None
        if model.generations == before.generations:
            assert model.answers is before.answers
            assert model.cluster is before.cluster
        assert_kept(before.answers.nodes, model.answers.nodes)
        assert_kept(before.answers.instances, model.answers.instances)
        assert_kept(before.cluster.nodes, model.cluster.nodes)
        assert_kept(before.cluster.instances, model.cluster.instances)
        assert luxi.parse(model.answers) == replace(model.cluster, standby=())


@given(STEPS)
def test_model_equals_cluster_after_reading_all_tables(steps: list[Step]) -> None:
    now, model = world(), Model()
    for step in steps:
        now = after(now, step)
        model = set_tables(model, step.kind, read(now, step.kind), 0.0)
    for kind in TABLES:
        model = set_tables(model, kind, read(now, kind), 0.0)
    assert model.cluster is not None
    assert replace(model.cluster, standby=()) == expected(now)
    assert set(model.silent) == now.silent - now.offline
    assert model.answers is not None
    answers = model.answers
    parts = {name: relayed.to_json(fields, getattr(answers, name)) for name, fields in relayed.FIELDS.items()}
    # Silent nodes are listed beside the tables.
    plain = [
        row._replace(values={field: value for field, value in row.values.items() if field != "silent"})
        for row in answers.nodes
    ]
    assert relayed.from_json({**parts, "info": answers.info}) == answers._replace(nodes=plain)


def expected(now: World) -> Cluster:
    """What the tools read over LUXI."""
    info = read(now, CONFIGURATION)["cluster"][0].values
    told = ClusterAnswers(
        rows(now, tables.NODES, "node", now.cluster.nodes, queries.NODE_FIELDS),
        rows(now, tables.INSTANCES, "instance", now.cluster.instances, queries.INSTANCE_FIELDS),
        dict(info),
        rows(now, tables.GROUPS, "group", now.cluster.groups, queries.GROUP_FIELDS),
        _networks(now),
    )
    return luxi.parse_with_silent_nodes(told)
