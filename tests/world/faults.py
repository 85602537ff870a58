"""Faults of Ganeti by seed: of luxid, of jobs, and of nodes. Those of the machine are the machine's."""

from typing import Any

import trio

from ganeti_htools.simulator.world import lose_node, restore_node

PAUSE = 3600.0  # seconds between two faults, on average
OPCODES = ("MIGRATE", "REPLACE_DISKS", "FAILOVER", "NODE_SET_PARAMS", "TAGS", "INSTANCE")


async def work(world: Any) -> None:
    """Make one fault after the other until cancelled. Each one ends before the next begins."""
    rate = world.setting("faults", 1.0)
    if rate <= 0:
        await trio.sleep_forever()
    chance, ganeti = world.chance("faults"), world.ganeti
    while True:
        await trio.sleep(chance.expovariate(rate / PAUSE))
        kind = chance.choice(("luxid", "restart", "fail", "hang", "cancel", "archive", "silence", "queue"))
        seconds = chance.choice((1.0, 30.0, 600.0))
        world.record("fault", kind=kind, seconds=seconds)
        jobs, master = ganeti.jobs, ganeti.state.master
        match kind:
            case "luxid":
                ganeti.faults.rate = chance.choice((0.05, 0.5))
                await trio.sleep(seconds)
                ganeti.faults.rate = 0.0
            case "restart" if not ganeti.failing_over:
                ganeti.stop_serving(master)
                await trio.sleep(min(seconds, 60))
                if ganeti.state.master == master:
                    await ganeti.serve(master)
            case "fail":
                jobs.behaviour.fail(chance.choice(OPCODES), chance.choice((1, 3)))
                await trio.sleep(3600)
                jobs.behaviour.failures.clear()
            case "hang":
                usual, jobs.behaviour.seconds = jobs.behaviour.seconds, chance.choice((600.0, 7200.0))
                await trio.sleep(seconds)
                jobs.behaviour.seconds = usual
            case "cancel" | "archive":
                for job in jobs.unarchived():
                    if kind == "cancel" and not job.state.final and chance.random() < 0.5:
                        jobs.cancel(job.number)
                    elif kind == "archive":
                        jobs.archive(job.number)
            case "silence":
                names = sorted({node.name for node in ganeti.state.cluster.nodes} - set(world.hosts))
                name = chance.choice(names)
                if name not in ganeti.state.silent | ganeti.state.offline:
                    ganeti.change("network", lose_node(ganeti.state, name))
                    await trio.sleep(seconds)
                    ganeti.change("network", restore_node(ganeti.state, name))
            case "queue":
                jobs.drained = True
                await trio.sleep(seconds)
                jobs.drained = False
