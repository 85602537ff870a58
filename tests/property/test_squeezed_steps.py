"""Nodes are powered down on the simulated Ganeti: after every single job N+1 holds, and the reserve.

Also where a run is cut off, and another one goes on.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import count

import numpy as np
import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.engine.squeezing.reserve import holds_n1
from ganeti_htools.execution.events import Event, News, Submitted, Submitting
from ganeti_htools.execution.run import Ending, Run
from ganeti_htools.planning import view
from ganeti_htools.planning.squeezing import hsqueeze
from ganeti_htools.planning.squeezing.hsqueeze import SqueezeOptions
from ganeti_htools.planning.squeezing.leftovers import find_leftovers
from ganeti_htools.simulator.world import World, initial_world
from tests.support.clusters import Shape
from tests.support.phases import in_phases
from tests.support.rows import with_master
from tests.support.simulated import simulated
from tests.support.squeezing import Caller

TEMPLATES = {
    "drbd": {"drbd": 2, "ext": 1},
    "all": {"drbd": 1, "ext": 1, "plain": 2},
}


def sound(world: World, options: SqueezeOptions) -> bool:
    """Whether every group of a world holds N+1, and each node that is in use has room for what was asked.

    Nothing is failed over to a node that is drained.
    """
    rows, state = world.cluster.instances, view.state_of(world.file_cluster(), options.view)
    if any(row.snode in world.drained and row.pnode not in world.drained for row in rows):
        return False
    scopes = [state.group == group for group in np.unique(state.group)]
    return all(holds_n1(state, scope) for scope in scopes) and not hsqueeze.lacks_resources(state, options)


def options_for(allowed: str) -> SqueezeOptions:
    """Options that have such instances moved."""
    return SqueezeOptions(
        minimal_resources=1.0,
        target_resources=1.0,
        allow_drbd=allowed == "drbd",
        allow_all=allowed == "all",
    )


async def watched(caller: Caller, options: SqueezeOptions) -> Run:
    """Plan and carry out; N+1 and the reserve hold before, and after each job."""
    unsound: list[str] = []
    assert sound(caller.world, options)

    def look(event: Event) -> None:
        if isinstance(event, News) and event.task.over and not sound(caller.world, options):
            unsound.append(event.task.job.title)

    caller.react = look
    run = await caller.squeeze(options)
    assert run.ending is Ending.DONE
    assert not unsound
    return run


@pytest.mark.parametrize("allowed", TEMPLATES)
@pytest.mark.parametrize("seed", [0, pytest.param(2, marks=pytest.mark.long), 4])
async def test_cluster_is_consistent_after_every_job(
    autojump_clock: MockClock, allowed: str, seed: int
) -> None:
    shape = Shape(nodes=6, instances=9, templates=TEMPLATES[allowed], fill=0.15, down=0)
    start = initial_world(with_master(seed, shape))
    async with simulated(start) as (master, client):
        caller = Caller(master, client)
        run = await watched(caller, options_for(allowed))
        assert run.moved
        assert caller.world.offline


@pytest.mark.slow
@pytest.mark.parametrize(("allowed", "seed"), [("drbd", 1), ("all", 26)])
@pytest.mark.parametrize("distance", [14, pytest.param(2, marks=pytest.mark.long)])
async def test_next_run_completes_interrupted_one(
    autojump_clock: MockClock, allowed: str, seed: int, distance: int
) -> None:
    """Cut off every few events; one of the nodes is drained only once mirrors have left it."""
    shape = Shape(nodes=4, instances=5, templates=TEMPLATES[allowed], fill=0.15, down=0)
    start, options = initial_world(with_master(seed, shape)), options_for(allowed)
    first = hsqueeze.HSQUEEZE.propose(start.file_cluster(), options, lambda _text: None)
    assert any(phase["late"] for phase in first.found["phases"])
    freed = set[int]()
    for events in count(1, distance):
        async with simulated(start) as (master, client):
            caller = Caller(master, client)
            cut = await caller.cut_off(events, options)
            await caller.settle()
            await watched(caller, options)
            freed.add(len(caller.world.offline))
            assert not str(find_leftovers(caller.world.file_cluster()))
            work = caller.done()
            assert not [each for place, each in enumerate(work) if each in work[:place]]
            assert not (await caller.squeeze(options)).tasks
            if not cut:
                break
    assert events > 20
    assert len(freed) == 1


IN_PHASES = SqueezeOptions(minimal_resources=0.25, target_resources=0.25, allow_drbd=True)


async def killed(caller: Caller, sets: int) -> bool:
    """Between a submission and its answer."""
    return await caller.cut_off_unanswered(sets, IN_PHASES)


async def failed(caller: Caller, sets: int) -> bool:
    """A job of that set does; nodes that are not offline yet are not drained any more."""
    left = sets

    def fail(event: Event) -> None:
        nonlocal left
        left -= isinstance(event, Submitting)
        if not left:
            left = -1
            caller.master.jobs.behaviour.fail(".", 1)

    caller.react = fail
    run = await caller.squeeze(IN_PHASES)
    assert run.ending is (Ending.DONE if left > 0 else Ending.FAILED)
    assert not caller.world.drained
    return run.ending is Ending.FAILED


async def lost(caller: Caller, sets: int) -> bool:
    """Luxid is, for good, once that set has been submitted."""
    left = sets

    async with trio.open_nursery() as nursery:

        def lose(event: Event) -> None:
            nonlocal left
            left -= isinstance(event, Submitted)
            if not left:
                nursery.start_soon(caller.master.go)

        caller.react = lose
        run = await caller.squeeze(IN_PHASES)
    caller.master.there = True
    assert run.ending is (Ending.DONE if left > 0 else Ending.LOST)
    return run.ending is Ending.LOST


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cut_off", "steps"),
    [
        (killed, [1, 10]),
        (failed, [10]),
        (lost, [11]),
        pytest.param(killed, range(1, 99, 2), marks=pytest.mark.long),
        pytest.param(failed, range(1, 99, 3), marks=pytest.mark.long),
        pytest.param(lost, range(2, 99, 3), marks=pytest.mark.long),
    ],
)
async def test_next_run_completes_interruption_in_any_phase(
    autojump_clock: MockClock, cut_off: Callable[[Caller, int], Awaitable[bool]], steps: Sequence[int]
) -> None:
    """Killed, failed or without luxid at some sets of jobs of a plan of two phases."""
    start = initial_world(in_phases())
    first = hsqueeze.HSQUEEZE.propose(start.file_cluster(), IN_PHASES, lambda _text: None)
    assert len(first.found["phases"]) == 2
    for sets in steps:
        async with simulated(start) as (master, client):
            caller = Caller(master, client)
            cut = await cut_off(caller, sets)
            await caller.settle()
            await watched(caller, IN_PHASES)
            assert caller.world.offline == set(first.found["nodes"])
            assert not caller.world.drained
            assert not str(find_leftovers(caller.world.file_cluster()))
            moves = [work for work in caller.done() if "instance_name" in work[0]]
            assert not [each for place, each in enumerate(moves) if each in moves[:place]]
            assert not (await caller.squeeze(IN_PHASES)).tasks
            if not cut:
                assert sets > len(first.jobs)
                break
