"""Runs of the witness: Ganeti's own programs on a copy of a request, as the daemon's user."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ganeti_htools import machine
from ganeti_htools.model.errors import DataError, on_one_line
from ganeti_htools.programs import KilledError, run_program

GANETIS_HAIL = "/usr/lib/ganeti/iallocators/hail"  # all of Ganeti's htools, by the variable HTOOLS
MOST_PRINTED = 16 << 20  # bytes of an answer
NICE = ("nice", "-n", "19")


class WitnessAnswer(NamedTuple):
    """The answer of a program after so many seconds, and its standard error.

    ``error`` says why there is no answer. ``late``: it was killed because of its time.
    """

    answer: str = ""
    seconds: float = 0.0
    stderr: str = ""
    error: str | None = None
    late: bool = False


@contextmanager
def request_file(data: bytes) -> Iterator[int]:
    """Have a request in a file in memory, so that no full disk matters; its descriptor."""
    descriptor = os.memfd_create("request")
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        yield descriptor
    finally:
        os.close(descriptor)


async def ask_program(
    program: str, descriptor: int, arguments: Sequence[str], patience: float, low_priority: bool = False
) -> WitnessAnswer:
    """Run an iallocator on a request; it inherits no stream of ours.

    Ganeti hands a switch over as ``--KEY=``, which its own program refuses.
    """
    options = [each.removesuffix("=") for each in arguments]
    command = [*(NICE if low_priority else ()), program, f"/proc/self/fd/{descriptor}", *options]
    began = machine.steady()
    environment = os.environ | {"LC_ALL": "C.UTF-8", "HTOOLS": "hail"}
    try:
        done = await run_program(
            command, patience, MOST_PRINTED, "an answer", pass_fds=[descriptor], cwd="/", env=environment
        )
    except DataError as error:
        seconds = machine.steady() - began
        late = isinstance(error, KilledError) and error.late
        return WitnessAnswer(seconds=seconds, error=str(error), late=late)
    seconds, stderr = machine.steady() - began, done.stderr.decode(errors="replace")
    if done.status or not _is_answer(done.stdout):
        why = on_one_line(stderr.strip().partition("\n")[0]) or "no answer"
        status = f"exit status {done.status}" if done.status >= 0 else f"ended by signal {-done.status}"
        return WitnessAnswer(seconds=seconds, stderr=stderr, error=f"{program}: {status}: {why}")
    return WitnessAnswer(done.stdout.decode(), seconds, stderr)


def _is_answer(output: bytes) -> bool:
    try:
        document = json.loads(output)
    except ValueError:
        return False
    return isinstance(document, dict) and document.keys() >= {"success", "info", "result"}
