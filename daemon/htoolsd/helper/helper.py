"""Work given to the helper, a process for each piece of work, and its limits of CPU time and of time."""

import os
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

import trio

from ganeti_htools import machine
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import on_one_line
from htoolsd.helper.program import encode


class HelperResult(NamedTuple):
    """The output of work. ``limit`` is the limit in words at which it was ended; ``error`` why it failed."""

    output: bytes = b""
    limit: str | None = None
    error: str | None = None


async def run_helper(module: str, cpu: float, longest: float, cluster: Cluster, *more: Any) -> HelperResult:
    """Return the result of the function ``work`` of a module for a cluster and more values.

    It takes at most ``cpu`` seconds of CPU time, and ``longest`` seconds. Its process ends with the caller.
    """
    with trio.move_on_after(longest):
        done = await machine.run_process(
            [sys.executable, "-P", "-m", "htoolsd.helper.program", module, str(cpu)],
            stdin=await machine.run_sync(encode, cluster, *more),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            # The packages may be where only the programs look for them.
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )
        if done.returncode == -signal.SIGPROF:
            return HelperResult(done.stdout, limit=f"{cpu:g} s of CPU time")
        if done.returncode < 0:
            return HelperResult(done.stdout, error=f"ended by {signal.Signals(-done.returncode).name}")
        if done.returncode > 0:
            last = on_one_line(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
            return HelperResult(done.stdout, error=last or f"ended with status {done.returncode}")
        return HelperResult(done.stdout)
    return HelperResult(limit=f"{longest:g} s")
