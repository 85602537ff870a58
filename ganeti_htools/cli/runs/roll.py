"""``hmaintain roll``: takes batch after batch through its maintenance."""

import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from ganeti_htools.cli.report import maintenance as reports
from ganeti_htools.cli.report.layout import wrapped
from ganeti_htools.cli.runs import maintenance, waiting
from ganeti_htools.cli.runs.maintenance import Tell
from ganeti_htools.cli.runs.over_luxi import OverLuxi
from ganeti_htools.cli.terminal.messages import progress, say, warn
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
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
    words = waiting.words_of(line.command) if line.command else []
    waiting.end_at_signals()
    if line.pause:
        waiting.ignore_early_signal()
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
        if not waiting.await_hours(line.hours):
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
        waiting.run_program(["gnt-cluster", "master-failover"], (), line.json)


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
                waiting.run_program(words, batch.nodes, line.json)
                running = False
            if line.pause:
                waiting.pause(batch.nodes)
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
