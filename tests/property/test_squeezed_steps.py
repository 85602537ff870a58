"""Nodes are powered down on the simulated Ganeti: after every single job N+1 holds, and the reserve."""

import numpy as np
import pytest
from trio.testing import MockClock

from ganeti_htools.engine.squeezing.reserve import redundant
from ganeti_htools.execution.events import Event, News
from ganeti_htools.execution.run import Ending
from ganeti_htools.planning import hsqueeze, view
from ganeti_htools.planning.hsqueeze import Options
from ganeti_htools.simulator.world import World, begin
from tests.support.clusters import Shape
from tests.support.rows import with_master
from tests.support.simulated import simulated
from tests.support.squeezing import Caller

TEMPLATES = {
    "drbd": {"drbd": 2, "ext": 1},
    "all": {"drbd": 1, "ext": 1, "plain": 2},
}


def sound(world: World, options: Options) -> bool:
    """Whether every group of a world holds N+1, and each node that is in use has room for what was asked."""
    state = view.state_of(world.described(), options.view)
    scopes = [state.group == group for group in np.unique(state.group)]
    return all(redundant(state, scope) for scope in scopes) and not hsqueeze.lacking(state, options)


@pytest.mark.parametrize("allowed", TEMPLATES)
@pytest.mark.parametrize("seed", [0, 2, 4])
async def test_after_every_job(autojump_clock: MockClock, allowed: str, seed: int) -> None:
    shape = Shape(nodes=6, instances=9, templates=TEMPLATES[allowed], fill=0.15, down=0)
    start = begin(with_master(seed, shape))
    options = Options(
        minimal_resources=1.0,
        target_resources=1.0,
        allow_drbd=allowed == "drbd",
        allow_all=allowed == "all",
    )
    async with simulated(start) as (master, client):
        caller = Caller(master, client)
        unsound: list[str] = []
        assert sound(start, options)

        def look(event: Event) -> None:
            if isinstance(event, News) and event.task.over and not sound(caller.world, options):
                unsound.append(event.task.job.title)

        caller.react = look
        run = await caller.squeeze(options)
        assert run.ending is Ending.DONE
        assert not unsound
        assert run.moved
        assert caller.world.offline
