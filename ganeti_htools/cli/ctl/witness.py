"""The witness: how decisions compare with those of Ganeti's own program."""

from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.ctl.commands import Add, call, show
from ganeti_htools.cli.report.layout import fitting_table
from ganeti_htools.model.wording import counted, moment

UNEXPLAINED, _TOO_FEW = 3, 4  # exit statuses
_HEAD = ("Decision", "Time", "Request", "Verdict", "Explained by")


def declare(add: Add) -> None:
    """Add the command."""
    command = add("witness", _witness, "Compare decisions with those of Ganeti's own program.")
    command.add_argument("id", metavar="ID", nargs="?", help="a decision that differs: both answers")


def _witness(options: Namespace) -> int:
    answer = call(options, "witness", {"id": options.id})
    if options.id is not None:
        return show(options, answer, difference)
    show(options, answer, record)
    if answer["unexplained"]:
        return UNEXPLAINED
    return 0 if answer["ready"] else _TOO_FEW


def record(answer: Any) -> str:
    """Format the record: counts, times, and the differences."""
    return "\n".join(_record(answer))


def _record(answer: Any) -> Iterator[str]:
    yield summary(answer)
    if answer["since"] is not None:
        yield f"since {moment(answer['since'])}:"
        yield from comparisons(
            answer, "htoolsctl witness ID shows both answers; docs/differences.md has what explains them."
        )


def comparisons(answer: Any, way: str) -> Iterator[str]:
    """Format counts, times, and the differences with the ``way`` to see one."""
    for kind, verdicts in answer["counts"].items():
        yield f"  {kind}: {', '.join(f'{count} {verdict}' for verdict, count in verdicts.items())}"
    for name, side in _sides(answer):
        if seconds := answer["seconds"][name]:
            yield f"{side}: median {seconds['median']:.3f} s, slowest {seconds['slowest']:.3f} s"
    rows = [
        (each["id"], moment(each["time"]), each["request"], each["verdict"], each["explained"] or "")
        for each in answer["differences"]
    ]
    if rows:
        yield fitting_table(_HEAD, rows, (False,) * len(_HEAD)).rstrip("\n")
        yield way


def summary(answer: Mapping[str, Any]) -> str:
    """Describe in one line who answers, and whether the record suffices to switch."""
    if answer["program"] is None:
        return "off: [witness] has no program"
    who = "htoolsd" if answer["answers"] == "ours" else answer["program"]
    facts = [f"{who} answers", f"{counted(answer['compared'], 'decision')} compared"]
    if answer["unexplained"]:
        facts.append(f"{counted(answer['unexplained'], 'difference')} unexplained")
    elif answer["ready"]:
        facts.append("none unexplained: good enough to switch")
    else:
        facts.append(f"none unexplained so far; {answer['enough']} are enough")
    return ", ".join(facts) + (f"; not recorded: {answer['error']}" if answer["error"] else "")


def difference(answer: Any) -> str:
    """Format one difference."""
    return "\n".join(_difference(answer))


def _difference(answer: Any) -> Iterator[str]:
    explained = f"; explained by {answer['explained']} of docs/differences.md" if answer["explained"] else ""
    yield f"decision {answer['id']}, {answer['request']}, {moment(answer['time'])}"
    yield f"{answer['verdict']}{explained}"
    if answer["error"]:
        yield f"error: {answer['error']}"
    for each in answer["instances"]:
        found = (f"{side} {':'.join(each[name] or ()) or 'no place'}" for name, side in _sides(answer))
        yield f"  {each['instance']}: {', '.join(found)}"
    if answer["scores"]:
        scores = (f"{side} {_score(answer['scores'][name])}" for name, side in _sides(answer))
        by = "" if answer.get("exact") is not None else " by the other program"
        yield f"score{by}: {', '.join(scores)}"
    seconds = answer["our_seconds"], answer["their_seconds"]
    for (name, side), after in zip(_sides(answer), seconds, strict=True):
        yield f"{side}, after {after:.3f} s: {answer[name] or 'no answer'}"
    if request := " ".join([*filter(None, [answer.get("file")]), *answer["arguments"]]):
        yield f"request: {request}"


def _sides(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys of both answers, each with its words."""
    yield from (answer.get("sides") or {"ours": "ours", "theirs": "theirs"}).items()


def _score(value: float | None) -> str:
    return "refused" if value is None else fixed(value, 8)
