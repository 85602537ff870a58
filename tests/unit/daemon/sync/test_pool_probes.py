"""Probes of pools: real commands."""

import os
from pathlib import Path
from select import select

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.model.errors import DataError
from ganeti_htools.model.known_storage import UnitSpace
from htoolsd.sync.pool_probes import probe
from tests.support.programs import PATIENCE


@pytest.mark.parametrize(
    ("output", "space"),
    [
        ("100 500", UnitSpace(500, 100)),
        ("1g\\n2t\\n", UnitSpace(2 << 20, 1024)),
        ("0 0", UnitSpace(0, 0)),
    ],
)
async def test_command_prints_free_and_total_space(output: str, space: UnitSpace) -> None:
    assert await probe(("printf", output)) == space


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("printf", ""), "printf: expected free and total space, got ''"),
        (("printf", "1 2 3"), "printf: expected free and total space, got '1 2 3'"),
        (("printf", "x 5"), "printf: cannot parse string 'x'"),
        (("printf", "6 5"), "printf: expected free space from 0 to the total, got 6 of 5 MiB"),
        (("false",), "false: exit status 1"),
        (("/nowhere/command",), "/nowhere/command: No such file or directory"),
        (("/etc/passwd",), "/etc/passwd: Permission denied"),
        (("cat", "/dev/zero"), "cat: expected free and total space, got more than 4096 bytes"),
    ],
)
async def test_names_what_is_wrong_with_a_command(command: tuple[str, ...], told: str) -> None:
    with pytest.raises(DataError) as error:
        await probe(command)
    assert str(error.value).startswith(told)


@pytest.mark.parametrize("end", ["", "wait"])
async def test_kills_the_children_of_a_command_at_its_deadline(
    tmp_path: Path, mock_clock: MockClock, end: str
) -> None:
    """Also those of a command that has ended."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = ("sh", "-c", f"sleep 1000 3>{fifo} & {end}")
    async with trio.open_nursery() as nursery:

        async def fail() -> None:
            with pytest.raises(DataError, match=r"^sh: no end within 5 s$"):
                await probe(command, patience=5)

        nursery.start_soon(fail)
        with await trio.to_thread.run_sync(fifo.open) as reading:  # the child has begun
            mock_clock.jump(10)
            ended, _, _ = await trio.to_thread.run_sync(select, [reading], [], [], PATIENCE)
            assert ended


async def test_ends_a_command_that_hangs() -> None:
    with pytest.raises(DataError, match=r"^sleep: no end within 0.05 s$"):
        await probe(("sleep", "1000"), patience=0.05)
