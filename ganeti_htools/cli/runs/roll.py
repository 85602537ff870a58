"""``hmaintain roll``: takes batch after batch through its maintenance."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from types import FrameType

import numpy as np
import trio

from ganeti_htools import streams
from ganeti_htools.cli.report import maintenance as reports
from ganeti_htools.cli.report.layout import wrapped
from ganeti_htools.cli.runs import maintenance
from ganeti_htools.cli.runs.maintenance import Tell
from ganeti_htools.cli.runs.over_luxi import OverLuxi
from ganeti_htools.cli.terminal.messages import progress, say, warn
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.hours import Hours
from ganeti_htools.nursery import open_nursery
from ganeti_htools.planning import view
from ganeti_htools.planning.maintenance.hmaintain import MaintainOptions, lost_names
from ganeti_htools.planning.maintenance.node_jobs import describe
from ganeti_htools.planning.maintenance.review import newly_lost
from ganeti_htools.planning.maintenance.roll import Roll, RollBatch, RollOptions, cannot_leave, roll_of
from ganeti_htools.planning.view import is_called


def plan_roll(cluster: Cluster, options: RollOptions) -> Roll:
    """Find what is left of a roll. Raises HtoolsError."""
    with progress("planning the roll") as live:
        return roll_of(cluster, options, live)


def carry_out(line: CommandLine, options: RollOptions, tell: Tell) -> tuple[Roll, bool]:
    """Go through the batches. Returns how the roll ended, and whether all instances are at home.

    Raises HtoolsError at the first failure.
    """
    if not (line.command or line.pause):
        raise HtoolsError("roll -X: expected --command=PROGRAM, --pause or both")
    words = words_of(line.command) if line.command else []
    end_at_signals()
    if line.pause:
        ignore_early_signal()
    if line.master_failover:
        _become_master(line)
    cluster = maintenance.read_now(line)
    roll, complete = plan_roll(cluster, options), True
    under_way = tuple(name for batch in roll.batches if batch.stage != "new" for name in batch.nodes)
    working = replace(options.start, nodes=under_way, take_over=line.take_over)
    maintenance.check_marks(line, cluster.nodes, working)
    if line.anew and roll.done:
        _forget(line, roll, options.start)
        roll = plan_roll(maintenance.read_now(line), options)
    tell(*map(wrapped, reports.about_roll(roll)))
    name, accepted = roll.name or options.start.run.rpartition(":")[0], _lost(cluster, options)
    while roll.batches:
        if not await_hours(line.hours):
            batch = roll.batches[0]
            more = f", {len(roll.batches)} batches left" * (len(roll.batches) > 1)
            tell(f"Batch: {', '.join(batch.nodes)}{more}")
            complete &= _through(line, batch, name, words, options, tell)
            _verify(maintenance.read_now(line), options, accepted)
        before, roll = roll, plan_roll(maintenance.read_now(line), options)
        for node, why in roll.refused.items():
            if node not in before.refused:
                warn(f"Warning: node {node} is left out: {why}")
    _forget(line, roll, options.start)
    tell(f"The roll is over; done: {', '.join(roll.done) or 'no node'}")
    return roll, complete


def _become_master(line: CommandLine) -> None:
    """Take over the role of master, unless this machine has it. Raises HtoolsError."""
    if line.luxi is None:
        raise HtoolsError("--master-failover: expected -L, on the master candidate that becomes the master")
    found = subprocess.run(["gnt-cluster", "getmaster"], capture_output=True, text=True, check=False)
    if not is_called(found.stdout.strip(), socket.gethostname()):
        run_program(["gnt-cluster", "master-failover"], (), line.json)


def _through(
    line: CommandLine, batch: RollBatch, name: str, words: Sequence[str], options: RollOptions, tell: Tell
) -> bool:
    """Take a batch through its maintenance. Returns whether all instances are at home. Raises HtoolsError."""
    start = replace(options.start, nodes=batch.nodes, roll=name)
    end = replace(start, action="end", empty=False, keep_candidate=False)
    running = False
    try:
        if batch.stage != "done":
            taken_over = replace(start, take_over=line.take_over and batch.stage == "begun")
            if batch.stage == "begun":
                maintenance.set_online(line, start)  # it may have been cut off while they were offline
            before = OverLuxi(line).boot_ids(batch.nodes) if line.rebooted else {}
            maintenance.execute_action(line, taken_over, tell)
            # What had been decided before may have come meanwhile.
            plan = maintenance.execute_action(line, start, tell)
            if left := cannot_leave(plan, options.ignore_non_redundant):
                raise HtoolsError(f"{', '.join(batch.nodes)}: {describe(left)}")
            if line.set_offline:
                maintenance.execute_action(line, replace(start, action="offline"), tell)
            if words:
                running = True
                run_program(words, batch.nodes, line.json)
                running = False
            if line.pause:
                pause(batch.nodes)
            if line.set_offline:
                maintenance.set_online(line, start)
            if before:
                OverLuxi(line).await_reboot(before)
        plan = maintenance.execute_action(
            line, replace(end, take_over=line.take_over and batch.stage == "done"), tell
        )
    except (HtoolsError, SystemExit, KeyboardInterrupt) as ended:
        names, option = " ".join(batch.nodes), " --take-over"
        if isinstance(ended, KeyboardInterrupt) and not running:  # nothing is under way
            with suppress(HtoolsError):
                maintenance.execute_action(line, replace(start, action="release"), lambda *_: None)
                option = ""
        say(
            f"The roll stops at {names}: the same command{option and ' with'}{option} goes on there,"
            f" 'hmaintain end {names}{option}' ends their maintenance\n"
        )
        raise
    return not plan.staying


def _forget(line: CommandLine, roll: Roll, options: MaintainOptions) -> None:
    """Remove what the roll has noted, if it has noted anything."""
    if roll.done:
        maintenance.execute_action(line, replace(options, action="forget", nodes=roll.done), lambda *_: None)


def _lost(cluster: Cluster, options: RollOptions) -> frozenset[str]:
    return lost_names(view.state_of(cluster, options.start.view))


def _verify(cluster: Cluster, options: RollOptions, accepted: frozenset[str]) -> None:
    """Raises HtoolsError if an instance has lost its redundancy since the roll began."""
    state = view.state_of(cluster, options.start.view)
    nobody = np.zeros(len(state.group), np.bool_)
    if options.start.check_redundancy and (why := newly_lost(state, nobody, accepted)):
        raise HtoolsError(f"the roll stops: {why}; --no-capacity-checks accepts that")


_LOOK = 30.0  # seconds between looks at the clock, which may be set meanwhile


def words_of(command: str) -> list[str]:
    """Split a command into words. Raises HtoolsError if it cannot be run."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise HtoolsError(f"--command: {error}") from error
    if not words or shutil.which(words[0]) is None:
        raise HtoolsError(f"--command: {command}: expected a program that can be run")
    return words


def run_program(words: Sequence[str], nodes: Sequence[str], quiet: bool) -> None:
    """Run a program with the names of nodes and wait for its end. Raises HtoolsError if it fails.

    ``quiet`` keeps its output away from standard output.
    """
    command = shlex.join([*words, *nodes])
    say(f"Running {command}\n")
    sys.stdout.flush()
    try:
        ended = subprocess.run([*words, *nodes], stdout=sys.stderr if quiet else None, check=False)
    except OSError as error:
        raise HtoolsError(f"{command}: {error.strerror or error}") from error
    if ended.returncode:
        how = f"ended with status {ended.returncode}" if ended.returncode > 0 else "was killed"
        raise HtoolsError(f"{command}: {how}")


def end_at_signals() -> None:
    """Let SIGTERM and SIGHUP interrupt the program as SIGINT does."""
    if not streams.not_ignored(signal.SIGINT):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # it stays without effect
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(_number: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)  # trio's, while that runs
        if callable(handler):
            handler(signal.SIGINT, frame)

    for number in streams.not_ignored(signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)


def ignore_early_signal() -> None:
    """Let SIGUSR1 pass until somebody waits for it."""
    signal.signal(signal.SIGUSR1, lambda *_: None)


def pause(nodes: Sequence[str]) -> None:
    """Wait for Enter on the terminal, or for SIGUSR1."""
    trio.run(_pause, nodes)


async def _pause(nodes: Sequence[str]) -> None:
    key = "press Enter, or " if sys.stdin is not None and sys.stdin.isatty() else ""
    with trio.open_signal_receiver(signal.SIGUSR1) as signals:
        say(f"{', '.join(nodes)}: empty; to go on, {key}kill -USR1 {os.getpid()}\n")
        async with open_nursery() as nursery:
            if key:
                nursery.start_soon(_await_enter, nursery.cancel_scope)
            async for _ in signals:
                nursery.cancel_scope.cancel()
                break


async def _await_enter(scope: trio.CancelScope) -> None:
    await trio.lowlevel.wait_readable(sys.stdin)
    sys.stdin.readline()  # a terminal gives whole lines
    scope.cancel()


def await_hours(hours: Hours | None) -> bool:
    """Wait until the hours begin. Returns whether that took time."""
    waited = False
    while hours is not None and (left := _minutes_left(hours)):
        if not waited:
            say(f"Waiting {left // 60} h {left % 60} min for the next batch (--hours)\n")
        waited = True
        time.sleep(_LOOK)
    return waited


def _minutes_left(hours: Hours) -> int:
    now = datetime.now()
    return hours.minutes_until(60 * now.hour + now.minute)
