"""A run of hsqueeze that is cut off anywhere, and another one that completes it."""

from dataclasses import replace
from itertools import count

import pytest
from trio.testing import MockClock

from ganeti_htools.execution.run import Ending
from ganeti_htools.planning.squeezing.hsqueeze import SqueezeOptions
from ganeti_htools.simulator.world import World
from tests.support.simulated import simulated
from tests.support.squeezing import LOOSE, TIGHT, Caller, titles, world

SQUEEZING = "htools:squeezing"


async def squeezed(start: World, options: SqueezeOptions) -> World:
    """What becomes of a world when nothing is cut off."""
    async with simulated(start) as (master, client):
        caller = Caller(master, client)
        assert (await caller.squeeze(options)).ending is Ending.DONE
        return caller.world


async def to_be_squeezed(action: str) -> tuple[World, SqueezeOptions]:
    """A world whose nodes go down or up with these options, perhaps some without out-of-band programs."""
    start = world()
    if action.endswith("without programs"):
        start = replace(start, unpowered=frozenset({"two", "three"}))
    return (start, LOOSE) if action.startswith("down") else (await squeezed(start, LOOSE), TIGHT)


@pytest.mark.parametrize("action", ["down", "up", "down without programs", "up without programs"])
async def test_next_run_completes_an_interrupted_run(autojump_clock: MockClock, action: str) -> None:
    """Cut off at each moment; jobs that were submitted by then go on, and end."""
    start, options = await to_be_squeezed(action)
    done = await squeezed(start, options)
    for events in count(1, 2 if action.endswith("without programs") else 1):
        async with simulated(start) as (master, client):
            caller = Caller(master, client)
            if not await caller.cut_off(events, options):
                break
            await caller.settle()
            run = await caller.squeeze(options)
            assert (run.ending, run.reason) == (Ending.DONE, ""), (events, titles(run))
            assert caller.world == done, (events, titles(run))
            assert not (await caller.squeeze(options)).tasks
    assert events > 8


async def test_interrupted_nodes_count_towards_max_nodes(autojump_clock: MockClock) -> None:
    options, went = replace(LOOSE, max_nodes=1), set()
    for events in count(1, 2):
        async with simulated(world()) as (master, client):
            caller = Caller(master, client)
            if not await caller.cut_off(events, options):
                break
            await caller.settle()
            begun = any(SQUEEZING in node.tags for node in caller.world.cluster.nodes)
            assert (await caller.squeeze(options)).ending is Ending.DONE
            went |= {len(caller.world.offline)} if begun else set()
    assert went == {1}


@pytest.mark.parametrize("action", ["down", "up"])
async def test_no_job_is_repeated_after_a_lost_answer(autojump_clock: MockClock, action: str) -> None:
    """Though it is not known what of the jobs was accepted last."""
    start, options = await to_be_squeezed(action)
    done = await squeezed(start, options)
    for times in count(1):
        async with simulated(start) as (master, client):
            caller = Caller(master, client)
            if not await caller.cut_off_unanswered(times, options):
                break
            await caller.settle()
            assert caller.done()
            assert (await caller.squeeze(options)).ending is Ending.DONE
            assert caller.world == done
            work = caller.done()
            assert not [each for place, each in enumerate(work) if each in work[:place]]
    assert times > 4


@pytest.mark.parametrize("action", ["down", "up"])
async def test_every_run_makes_progress(autojump_clock: MockClock, action: str) -> None:
    """Though each is cut off once its first jobs have ended."""
    start, options = await to_be_squeezed(action)
    done = await squeezed(start, options)
    async with simulated(start) as (master, client):
        caller = Caller(master, client)
        for times in count():
            if not await caller.cut_off(3, options):
                break
            await caller.settle()
            assert times < 10
        assert caller.world == done
