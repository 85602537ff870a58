"""``htoolsctl setup``: does what a node and its cluster lack, step by step, or undoes it."""

import json
import os
import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from ganeti_htools.cli.ctl.commands import CONFIGURATION
from ganeti_htools.cli.setup import observe
from ganeti_htools.cli.setup.steps import (
    STEPS,
    Facts,
    JudgedStep,
    SetupStep,
    StepState,
    judge,
    removals,
)
from ganeti_htools.cli.terminal.messages import warn
from ganeti_htools.files import write_text
from ganeti_htools.model.errors import HtoolsError, printable

_EFFECT = 30.0  # seconds until a command must have had its effect: the daemon reads the cluster
_PAUSE = 0.5
_DONE = "everything is done"
_LEFT = StepState.MISSING, StepState.BY_HAND


def setup(options: Namespace) -> int:
    """Judge all steps, and do what is missing; the exit status. Raises HtoolsError."""
    if os.geteuid():
        raise HtoolsError("setup: expected root; type: sudo htoolsctl setup")
    adding = not options.remove
    look = observe.observer(
        options.socket,
        asks_nodes=adding,
        submits=adding and not options.dry_run,
        compared=adding and options.witness,
    )
    facts, judged_steps = look(), []
    show = _nothing if options.json else partial(print, flush=True)
    show(f"this is {facts.node}; the master is {facts.master}")
    for step in STEPS if adding else removals(STEPS):
        judged = judge(step, facts)
        show(_line(judged))
        if judged.state is StepState.MISSING and not options.dry_run:
            _agree(options.yes)
            facts = _carry_out(step, judged, look, facts, options.remove)
            judged = judge(step, facts)
            show(_line(judged))
        judged_steps.append(judged)
    show(summary := _summary(judged_steps))
    if adding and summary == _DONE:
        show("next: htoolsctl status; in four weeks, htoolsctl forecast shows when the cluster will be full")
    if options.remove:
        show(f"{CONFIGURATION}, the user and the state of the daemon stay")
    if options.json:
        print(
            json.dumps({"node": facts.node, "master": facts.master, "steps": [*map(_to_json, judged_steps)]})
        )
    return 0 if options.dry_run else int(any(each.state is StepState.BY_HAND for each in judged_steps))


def _carry_out(
    step: SetupStep, judged: JudgedStep, look: Callable[[], Facts], before: Facts, remove: bool
) -> Facts:
    """Run the commands of a step and return the facts afterwards. Raises HtoolsError if that did not help.

    The record has the step from before the first command until after the last one that undoes it.
    """
    if step.recorded and not remove:
        _record(before.made | {step.name})
    problem = ""
    try:
        for command in judged.commands:
            observe.run(command)
    except HtoolsError as error:
        problem = str(error)
    if step.recorded and remove and not problem:
        _record(before.made - {step.name})
    end = time.monotonic() + (0.0 if problem else _EFFECT)
    while not step.done(facts := look()) and time.monotonic() < end:
        time.sleep(_PAUSE)
    if not step.done(facts):
        if step.recorded and not remove:
            _record(before.made)
        why = problem or step.note(facts) or step.failure
        raise HtoolsError(f"setup: {step.name}: {why}")
    if problem:
        warn(f"htoolsctl: setup: {step.name}: done, but {problem}")
    return facts


def _nothing(_text: str) -> None:
    """Print nothing."""


def _record(made: frozenset[str]) -> None:
    names = sorted(made & {step.name for step in STEPS if step.recorded})
    if names:
        write_text(observe.RECORD, "".join(f"{name}\n" for name in names))
    else:
        with suppress(FileNotFoundError):
            os.unlink(observe.RECORD)


def _agree(yes: bool) -> None:
    """Ask whether to run the commands that were shown. Raises HtoolsError without consent."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise HtoolsError(
            "setup: no terminal to ask on; type htoolsctl setup --yes, or --dry-run to see all steps"
        )
    print("Do this? [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise HtoolsError("setup: stopped; what was done stays")


def _summary(judged_steps: Sequence[JudgedStep]) -> str:
    left = {state: [each.name for each in judged_steps if each.state is state] for state in _LEFT}
    listed = "; ".join(f"{state}: {', '.join(names)}" for state, names in left.items() if names)
    return listed or _DONE


def _line(judged: JudgedStep) -> str:
    lines = [f"{judged.state:8} {judged.name:13} {judged.text}"]
    lines += [f"{'':22} {shlex.join(command)}" for command in judged.commands]
    return "\n".join(map(printable, lines))


def _to_json(judged: JudgedStep) -> dict[str, object]:
    return {
        "name": judged.name,
        "state": judged.state,
        "text": judged.text,
        "commands": [shlex.join(command) for command in judged.commands],
    }
