"""``htools-simulator``: a stand-in for the Ganeti master, over a cluster file."""

import argparse
import gc
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import trio

from ganeti_htools import streams
from ganeti_htools.backends import text, values
from ganeti_htools.files import read_text
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.nursery import open_nursery
from ganeti_htools.simulator.connections import Faults, listen, serve_client
from ganeti_htools.simulator.control import Control, Mastership
from ganeti_htools.simulator.jobs import JobBehaviour, Jobs
from ganeti_htools.simulator.luxid import Luxid
from ganeti_htools.simulator.world import World, initial_world, lose_node, rbd_pools
from ganeti_htools.version import ShowVersion


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; return the exit status."""
    streams.open_missing()
    options = argument_parser().parse_args(argv)
    status = 0
    try:
        world = replace(initial_world(text.parse(read_text(options.file), options.file)), name=options.name)
        for group in world.cluster.groups:
            if others := sorted({*rbd_pools(world.cluster, group)} - {group.rbd_pool}):
                print(
                    f"htools-simulator: Warning: group {group.name} has RBD disks on {', '.join(others)};"
                    f" as in Ganeti, they are all reported on its one pool, {group.rbd_pool}",
                    file=sys.stderr,
                )
        for name in options.lose:
            if world.node(name) is None:
                raise HtoolsError(f"--lose={name}: unknown node; expected a node of {options.file}")
            world = lose_node(world, name)
        behaviour = JobBehaviour(options.job_seconds)
        for pattern in options.fail:
            behaviour.fail(pattern)
        gc.freeze()  # spares full collections the cluster
        trio.run(_run, world, behaviour, Faults(options.slow), options.socket, options.control)
    except HtoolsError as error:
        print(f"htools-simulator: {error}", file=sys.stderr)
        status = 1
    return status


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="htools-simulator",
        description="Simulate the Ganeti master of the cluster in FILE (in the text format of hscan):"
        " answer LUXI queries, and run jobs on a copy of the cluster to rehearse changes.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show the version")
    parser.add_argument("file", metavar="FILE", help="cluster in the text format; - for standard input")
    parser.add_argument("--socket", metavar="PATH", required=True, help="Unix socket for LUXI")
    parser.add_argument("--control", metavar="PATH", help="Unix socket for orders")
    parser.add_argument(
        "--name", metavar="NAME", default="cluster", help="name of the cluster (default: cluster)"
    )
    parser.add_argument(
        "--job-seconds",
        type=_duration,
        default=1.0,
        metavar="TIME",
        help="duration of each opcode (default: 1)",
    )
    parser.add_argument(
        "--slow", type=_duration, default=0.0, metavar="TIME", help="delay before every answer (default: 0)"
    )
    parser.add_argument(
        "--fail",
        action="append",
        default=[],
        metavar="REGEX",
        help="let opcodes fail whose summary matches, like 'INSTANCE_MIGRATE\\(web' (repeatable)",
    )
    parser.add_argument(
        "--lose",
        action="append",
        default=[],
        metavar="NODE",
        help="let a node not answer (repeatable)",
    )
    return parser


def _duration(text: str) -> float:
    try:
        return values.duration(text)
    except DataError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


async def _run(
    world: World, behaviour: JobBehaviour, faults: Faults, path: str, control_path: str | None
) -> None:
    mastership = Mastership()
    with ExitStack() as sockets:
        controls = [] if control_path is None else [sockets.enter_context(listen(control_path))]
        async with open_nursery() as nursery:
            jobs = Jobs(nursery, world, behaviour)
            luxid, control = Luxid(jobs), Control(jobs, faults, mastership)
            heeded = streams.not_ignored(signal.SIGINT, signal.SIGHUP)
            with trio.open_signal_receiver(signal.SIGTERM, *heeded) as signals:
                orders = partial(serve_client, answer=control.answer, faults=Faults())
                if controls:
                    nursery.start_soon(trio.serve_listeners, orders, controls)
                nursery.start_soon(_serve_luxi, path, luxid, faults, mastership)
                async for _ in signals:
                    nursery.cancel_scope.cancel()
                    return


async def _serve_luxi(path: str, luxid: Luxid, faults: Faults, mastership: Mastership) -> None:
    """Serve LUXI while the master role is held. All connections end with the role."""
    while True:
        await mastership.until(True)
        with listen(path) as listener:
            print(f"htools-simulator: serving on {path}", flush=True)
            async with open_nursery() as clients:
                talk = partial(serve_client, answer=luxid.answer, faults=faults)
                clients.start_soon(trio.serve_listeners, talk, [listener])
                await mastership.until(False)
                clients.cancel_scope.cancel()


if __name__ == "__main__":
    sys.exit(main())
