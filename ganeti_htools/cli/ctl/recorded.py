"""Recorded decisions: ``htoolsctl replay`` and ``htoolsctl why --decision``. Both need no daemon."""

import json
import tomllib
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ganeti_htools.cli.ctl.commands import show
from ganeti_htools.cli.ctl.witness import UNEXPLAINED, comparisons, difference
from ganeti_htools.cli.report import explanation
from ganeti_htools.cli.report.layout import escape_control_characters, wrapped
from ganeti_htools.cli.terminal.messages import progress, warn
from ganeti_htools.files import read_bytes, read_text
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.model.wording import counted, moment
from ganeti_htools.recording.decision import RecordedDecision, read_decision
from ganeti_htools.recording.files import RecordHead, contents
from ganeti_htools.version import VERSION
from ganeti_htools.witness.replay import replay
from ganeti_htools.witness.tally import Tally
from ganeti_htools.witness.verdict import WitnessVerdict

STATE = "/var/lib/htoolsd"


def again(options: Namespace) -> int:
    """Decide recorded requests again, report differences; the exit status. Raises HtoolsError, OSError."""
    state = _state(options.config)
    if options.id is not None:
        return show(options, replay(decision(state, options.id), options.program), difference)
    since, tally = options.since or 0.0, Tally(options.program or f"htoolsd {VERSION}")
    exact, found, sides = 0, list[dict[str, Any]](), None
    with progress("deciding again") as live:
        for each in _decisions(state, lambda head: head.time >= since):
            one = replay(each, options.program)
            tally.since, sides = tally.since or each.time, one["sides"]
            answered = one["theirs"] is not None
            tally.add(
                one["request"],
                one["verdict"],
                one["explained"],
                (one["our_seconds"], one["their_seconds"] if answered else None),
            )
            exact += one["exact"] is True
            found += [one] if one["verdict"] != WitnessVerdict.SAME else []
            live(each.id)
    if tally.since is None:
        raise HtoolsError(f"{state}: no decision is recorded since then")
    same = exact if options.program is None else None
    facts = {"program": tally.program, "exact": same, **tally.to_json(), "differences": found, "sides": sides}
    show(options, facts, lambda answer: "\n".join(_report(answer)))
    return UNEXPLAINED if tally.unexplained else 0


def _report(answer: Any) -> Iterator[str]:
    number = sum(count for verdicts in answer["counts"].values() for count in verdicts.values())
    exact = "" if answer["exact"] is None else f", {counted(answer['exact'], 'answer')} the same to the byte"
    yield f"{counted(number, 'decision')} since {moment(answer['since'])} again by {answer['program']}{exact}"
    yield from comparisons(answer, "htoolsctl replay --id ID shows both answers.")


def explain(options: Namespace) -> int:
    """Print the candidates of a past decision; the exit status. Raises HtoolsError, OSError."""
    found = decision(_state(options.config), options.decision)
    prepared = found.prepare()
    if not options.json:
        answer = json.loads(found.answer)["info"] if found.answer else "unknown"
        by = f", answered by {found.program}" if found.program else ""
        title = f"decision {found.id}, {moment(found.time)}{by}. htoolsd's answer: {answer}"
        print(wrapped(escape_control_characters(title)))
    explanation.tell_places(prepared.state, prepared.message.request, prepared.options, options.json)
    return 0


def decision(state: Path, name: str) -> RecordedDecision:
    """Return a recorded decision, or one whose request the witness has kept. Raises HtoolsError, OSError."""
    if (state / "recording").exists():
        for each in _decisions(state, lambda head: head.id == name):
            return each
    kept = state / "witness" / f"{Path(name).name}.json"
    if not kept.exists():
        raise HtoolsError(f"{name}: neither recorded nor kept by the witness; htoolsctl history has ids")
    facts = json.loads(read_text(str(kept)))
    request = read_bytes(str(kept.with_suffix(".request")))
    arguments, ours = tuple(facts["arguments"]), facts["ours"] or ""
    return RecordedDecision(name, facts["time"], "", arguments, request, None, (), None, ours)


def _decisions(state: Path, wanted: Callable[[RecordHead], bool]) -> Iterator[RecordedDecision]:
    if not (state / "recording").exists():
        raise HtoolsError(f"{state}: no decision is recorded; mib of [recording] has them recorded")
    return map(read_decision, contents(state / "recording", wanted, warn))


def _state(configuration: str) -> Path:
    """Return the state directory of a daemon. Raises HtoolsError."""
    try:
        keys = tomllib.loads(read_text(configuration)) if Path(configuration).exists() else {}
    except ValueError as error:
        raise DataError(f"{configuration}: not TOML: {error}") from None
    return Path(str(keys.get("state_dir") or STATE))
