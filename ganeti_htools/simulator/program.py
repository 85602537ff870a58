"""``htools-simulator``: a stand-in for the Ganeti master, over a cluster file."""

import argparse
import gc
import math
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import trio

from ganeti_htools import streams
from ganeti_htools.backends import text
from ganeti_htools.files import read_text
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.simulator.control import Control, Mastership
from ganeti_htools.simulator.jobs import Behaviour, Jobs
from ganeti_htools.simulator.luxid import Luxid
from ganeti_htools.simulator.serving import Trouble, converse, listening
from ganeti_htools.simulator.world import World, begin, lose
from ganeti_htools.version import VERSION


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; the exit status."""
    streams.complete()
    options = _parser().parse_args(argv)
    status = 0
    try:
        world = replace(begin(text.parse(read_text(options.file), options.file)), name=options.name)
        for name in options.lose:
            if world.node(name) is None:
                raise HtoolsError(f"--lose: unknown node '{name}'")
            world = lose(world, name)
        behaviour = Behaviour(options.job_seconds)
        for pattern in options.fail:
            behaviour.fail(pattern)
        gc.freeze()  # a full collection need not look at the cluster again and again
        trio.run(_run, world, behaviour, Trouble(options.slow), options.socket, options.control)
    except* HtoolsError as errors:
        print(f"htools-simulator: {_first(errors)}", file=sys.stderr)
        status = 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="htools-simulator",
        description="Plays the Ganeti master of the cluster in FILE (as hscan saves it): answers LUXI queries"
        " and carries out jobs on its copy of the cluster, to rehearse what changes clusters.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"htools-simulator {VERSION}")
    parser.add_argument("file", metavar="FILE", help="cluster in the text format, - for standard input")
    parser.add_argument("--socket", metavar="PATH", required=True, help="Unix socket to serve LUXI on")
    parser.add_argument("--control", metavar="PATH", help="Unix socket to take orders on")
    parser.add_argument(
        "--name", metavar="NAME", default="cluster", help="what the cluster is called (cluster)"
    )
    parser.add_argument(
        "--job-seconds", type=_seconds, default=1.0, metavar="SECONDS", help="how long each opcode takes (1)"
    )
    parser.add_argument(
        "--slow", type=_seconds, default=0.0, metavar="SECONDS", help="wait this long before every answer (0)"
    )
    parser.add_argument(
        "--fail",
        action="append",
        default=[],
        metavar="REGEX",
        help="opcodes that fail, by their summary, like 'INSTANCE_MIGRATE\\(web' (may be repeated)",
    )
    parser.add_argument(
        "--lose",
        action="append",
        default=[],
        metavar="NODE",
        help="a node that does not answer (may be repeated)",
    )
    return parser


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, not '{value}'")
    return seconds


async def _run(
    world: World, behaviour: Behaviour, trouble: Trouble, path: str, control_path: str | None
) -> None:
    mastership = Mastership()
    with ExitStack() as sockets:
        controls = [] if control_path is None else [sockets.enter_context(listening(control_path))]
        async with trio.open_nursery() as nursery:
            jobs = Jobs(nursery, world, behaviour)
            luxid, control = Luxid(jobs), Control(jobs, trouble, mastership)
            heeded = streams.heeded(signal.SIGINT, signal.SIGHUP)
            with trio.open_signal_receiver(signal.SIGTERM, *heeded) as signals:
                orders = partial(converse, answer=control.answer, trouble=Trouble())
                if controls:
                    nursery.start_soon(trio.serve_listeners, orders, controls)
                nursery.start_soon(_reign, path, luxid, trouble, mastership)
                async for _ in signals:
                    nursery.cancel_scope.cancel()
                    return


async def _reign(path: str, luxid: Luxid, trouble: Trouble, mastership: Mastership) -> None:
    """Serve LUXI whenever this is the master; all conversations end with the role."""
    while True:
        await mastership.until(True)
        with listening(path) as listener:
            print(f"htools-simulator: serving on {path}", flush=True)
            async with trio.open_nursery() as clients:
                talk = partial(converse, answer=luxid.answer, trouble=trouble)
                clients.start_soon(trio.serve_listeners, talk, [listener])
                await mastership.until(False)
                clients.cancel_scope.cancel()


def _first(error: BaseException) -> BaseException:
    """One error of those that ended the tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


if __name__ == "__main__":
    sys.exit(main())
