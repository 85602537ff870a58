"""Faults of the machine by seed: kill -9, power cuts, full disks, set clocks, wrong names, defects."""

import trio

from tests.world.world import World

KINDS = ("kill", "kill at a step", "kill at a write", "power", "full", "read-only", "clock", "name", "defect")
PAUSE = 7200.0  # seconds between two, on average


async def work(world: World) -> None:
    """Make one fault after the other until cancelled. Each one ends before the next begins."""
    rate = world.setting("faults", 1.0)
    if rate <= 0:
        await trio.sleep_forever()
    chance = world.chance("machine")
    while True:
        await trio.sleep(chance.expovariate(rate / PAUSE))
        host = chance.choice(list(world.hosts.values()))
        kind = chance.choice(KINDS)
        seconds = chance.choice((1.0, 60.0, 900.0))
        world.record("fault", kind=kind, host=host.name, seconds=seconds)
        match kind:
            case "kill":
                await host.kill()
            case "kill at a step":
                host.kill_at(chance.randrange(1, 2000))
            case "kill at a write":
                host.disk.kill_in = chance.randrange(1, 50)
            case "power":
                host.strike(power=True)
            case "full" | "read-only":
                host.disk.full, host.disk.read_only = kind == "full", kind != "full"
                await trio.sleep(seconds)
                host.disk.full = host.disk.read_only = False
            case "defect":
                host.defect_in = chance.randrange(1, 500)
            case "clock":
                world.wall += chance.choice((-3600.0, -5.0, 5.0, 3600.0, 86400.0))
            case "name":
                host.name_service = chance.choice(("localhost", host.name.partition(".")[0]))
                await host.kill()
                await trio.sleep(seconds)
                host.name_service = host.name
