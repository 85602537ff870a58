"""Between two polls of live data the model equals what nodes report, whatever happens to instances."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance
from ganeti_htools.model.node_after import node_after
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.simulator.logical_units import carry_out
from ganeti_htools.simulator.opcodes import OpcodeError
from ganeti_htools.simulator.world import World, initial_world
from htoolsd.sync.model import CONFIGURATION, TABLES, Model, set_tables
from tests.property.test_model import expected, read
from tests.support.memory_ganeti import described, following, ganeti, truth
from tests.support.worlds import ANY, delay, instance, migrate, move, node, opcode, replace_disks

NODES = ("one", "two", "three", "four")
TEMPLATES = (DiskTemplate.DRBD, DiskTemplate.PLAIN, DiskTemplate.EXT)
STATUSES = (Status.RUNNING, Status.DOWN)


def row(number: int, template: DiskTemplate, places: list[str], status: Status) -> Instance:
    """Return an instance whose figures differ from those of the others."""
    made = instance(f"web{number}", template, places[0], places[1] if template is DiskTemplate.DRBD else None)
    size = 100 + number
    return replace(made, mem=50 + number, dsk=size, disks=(Disk(size, spindles=1),), status=status)


ROWS = st.tuples(st.sampled_from(TEMPLATES), st.permutations(NODES), st.sampled_from(STATUSES))


def world(rows: list[Any], exclusive: bool) -> World:
    """Return a world with these instances."""
    nodes = [node(name, excl_stor=exclusive, t_spindles=90, f_spindles=90) for name in NODES]
    started = initial_world(Cluster((Group("default", "uuid", ipolicy=ANY),), tuple(nodes), ()))
    for number, each in enumerate(rows):
        started = added(started, row(number, *each))
    return started


def added(now: World, new: Instance, sign: int = 1) -> World:
    """Return the world with an instance more, or without one."""
    nodes = [
        node_after(each, new, now.units, memory=sign * (each.name == new.pnode), storage=sign)
        for each in now.cluster.nodes
        if each.name in (new.pnode, new.snode)
    ]
    rows = (*(row for row in now.cluster.instances if row.name != new.name), *((new,) if sign > 0 else ()))
    changed = now.with_nodes(nodes)
    return replace(changed, cluster=replace(changed.cluster, instances=rows))


STEP = st.one_of(
    st.tuples(st.just("migrate"), st.integers(0, 4), st.sampled_from(NODES)),
    st.tuples(st.just("failover"), st.integers(0, 4), st.sampled_from(NODES)),
    st.tuples(st.just("replace"), st.integers(0, 4), st.sampled_from(NODES)),
    st.tuples(st.just("move"), st.integers(0, 4), st.sampled_from(NODES)),
    st.tuples(st.sampled_from(["toggle", "resize", "grow", "remove"]), st.integers(0, 4), st.none()),
    st.tuples(st.just("add"), st.integers(3, 6), ROWS),
)


def after(now: World, what: str, number: int, how: Any) -> World:
    """Return the world after a step; the same if the step is impossible."""
    name = f"web{number}"
    found = now.instance(name)
    if what == "add":
        return now if found else added(now, row(number, *how))
    if found is None:
        return now
    shared = found.template is DiskTemplate.EXT
    opcodes = {
        "migrate": migrate(name, **({"target_node": how} if shared else {})),
        "failover": opcode(
            "INSTANCE_FAILOVER", instance_name=name, **({"target_node": how} if shared else {})
        ),
        "replace": replace_disks(name, how),
        "move": move(name, how),
    }
    if what in opcodes:
        with suppress(OpcodeError):
            return carry_out(now, opcodes[what])[0]
        return now
    if what == "resize":  # a running instance keeps its memory until it is started again
        return now.with_instance(replace(found, mem=found.mem + 7)) if found.uses_memory else now
    gone = added(now, found, -1)
    if what == "remove":
        return gone
    if what == "grow":
        return added(gone, replace(found, dsk=found.dsk + 5, disks=(Disk(found.dsk + 5, spindles=2),)))
    status = Status.DOWN if found.uses_memory else Status.RUNNING
    return added(gone, replace(found, status=status))


def polled(model: Model, now: World, kinds: Iterable[str], asked: float = 0.0) -> Model:
    for kind in kinds:
        model = set_tables(model, kind, read(now, kind), asked)
    return model


CHANGES = st.lists(STEP, max_size=6)


@given(st.lists(ROWS, max_size=5), CHANGES, st.booleans())
def test_configuration_alone_gives_the_figures_that_nodes_report(
    rows: list[Any], steps: list[Any], exclusive: bool
) -> None:
    now = world(rows, exclusive)
    model = polled(Model(), now, TABLES)
    resized = set()
    for what, number, how in steps:
        if what in ("migrate", "failover", "move", "toggle", "remove") and number in resized:
            continue  # which memory it takes then depends on whether it is started again
        now = after(now, what, number, how)
        resized |= {number} if what == "resize" else set()
        model = polled(model, now, [CONFIGURATION])
    assert model.cluster is not None
    assert model.cluster.nodes == expected(now).nodes


PAUSES = st.lists(st.sampled_from([0, 1, 3, 5, 11]), min_size=6, max_size=6)


@settings(max_examples=25)
@given(st.lists(ROWS, min_size=1, max_size=5), CHANGES, PAUSES, st.booleans())
def test_followed_cluster_equals_ganetis_after_each_change(
    rows: list[Any], steps: list[Any], pauses: list[int], busy: bool
) -> None:
    async def follow() -> None:
        async with ganeti(world(rows, False)) as luxid, following(luxid) as sync:
            luxid.jobs.submit([[delay(400)]] if busy else [])
            await trio.sleep(1)
            for (what, number, how), pause in zip(steps, pauses, strict=False):
                luxid.jobs.change(after(luxid.jobs.world, what, number, how))
                await trio.sleep(pause)
                await sync.poll_configuration()
                assert await sync.poll_updates() is None
                assert described(sync) == truth(luxid)
            assert luxid.times("live node") == ([0] if trio.current_time() < 300 else [0, 300])

    trio.run(follow, clock=MockClock(autojump_threshold=0))
