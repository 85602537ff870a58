"""The check of ``htoolsctl check``: a status of the daemon, judged by the conventions of monitoring plugins.

The conventions are those of https://www.monitoring-plugins.org/doc/guidelines.html: exit status, one line,
performance data, ranges.
"""

import json
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from math import inf
from typing import Any, NamedTuple

from ganeti_htools.cli.ctl.commands import Add, call
from ganeti_htools.cli.terminal.arguments import argument
from ganeti_htools.model.errors import DataError, HtoolsError, on_one_line

_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_SHOWN = 5  # texts in the line


class CheckState(IntEnum):
    """The result of a check, and the exit status."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


class Range(NamedTuple):
    """A range without an alarm, and its ``text``. ``inside`` turns it round: values in the range alarm."""

    text: str
    low: float
    high: float
    inside: bool

    def alarms(self, value: float) -> bool:
        return (self.low <= value <= self.high) is self.inside


class Measure(NamedTuple):
    """A figure that thresholds can be about.

    ``kinds`` are the kinds of ATTENTION whose severity a threshold replaces. ``value`` returns None for an
    unknown figure. ``text`` describes a value.
    """

    kinds: tuple[str, ...]
    value: Callable[[Mapping[str, Any]], float | None]
    text: str
    unit: str = ""


class Verdict(NamedTuple):
    """The result of a check: the state, its reasons, the worst first, and the values of the metrics."""

    state: CheckState
    reasons: tuple[str, ...]
    values: Mapping[str, float | None]


# By metric: its range for warnings, and for critical alarms.
Thresholds = Mapping[str, Mapping[CheckState, Range]]


def _names(*kinds: str) -> Callable[[Mapping[str, Any]], float]:
    """Return a function that counts the names of these kinds of ATTENTION."""
    return lambda status: sum(len(each["names"]) for each in status["attention"] if each["kind"] in kinds)


def _in_groups(count: Callable[[Mapping[str, Any]], float]) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda status: None if status["groups"] is None else count(status)


def _age(status: Mapping[str, Any]) -> float | None:
    return max(status["cluster"]["ages"].values(), default=None)


def _free(status: Mapping[str, Any]) -> float | None:
    counts = [each["free_instances"] for each in status["capacity"]["groups"]]
    return None if None in counts else min(counts, default=None)


def _fallbacks(status: Mapping[str, Any]) -> float:
    recent = any(each["kind"] == "fallback" for each in status["attention"])
    return float(status["decisions"]["alone"]) if recent else 0


METRICS: Mapping[str, Measure] = {
    "age": Measure(("late",), _age, "the data about the cluster is {} s old", "s"),
    "n1": Measure(("n1",), _in_groups(_names("n1")), "nodes that fail N+1: {}"),
    "redundancy": Measure(
        ("redundancy",), _in_groups(_names("redundancy")), "nodes that cannot fail without loss: {}"
    ),
    "free": Measure((), _free, "fewest free standard instances of a node group: {}"),
    "fallback": Measure(("fallback",), _fallbacks, "decisions without the daemon: {}"),
    "policies": Measure(("policy",), _names("policy"), "policies that have switched themselves off: {}"),
    "plans": Measure(("plan",), _names("plan"), "plans that failed or were interrupted: {}"),
    "reload": Measure(
        ("reload",), lambda status: int(bool(status["reload"]["error"])), "rejected configurations: {}"
    ),
}


def declare(add: Add) -> None:
    check = add("check", _check, "Check the daemon and the cluster for a monitoring system.")
    check.usage_status = CheckState.UNKNOWN  # 2 would be CRITICAL
    given: dict[str, Any] = {
        "metavar": "METRIC=RANGE",
        "type": argument(read_threshold),
        "action": "append",
        "default": [],
    }
    for short, name in (("-w", "warning"), ("-c", "critical")):
        doc = f"{name} if the metric is outside of the range, like age=30m; can be repeated"
        check.add_argument(short, f"--{name}", help=doc, **given)


def _check(options: Namespace) -> int:
    """Print a line for a monitoring system, whatever happens. Return the exit status of its conventions."""
    thresholds: dict[str, dict[CheckState, Range]] = {}
    for state, ranges in ((CheckState.WARNING, options.warning), (CheckState.CRITICAL, options.critical)):
        for name, found in ranges:
            thresholds.setdefault(name, {})[state] = found
    try:
        # Counting takes the daemon some work.
        status = call(options, "status", {"capacity": True if "free" in thresholds else None})
        verdict = judge(status, thresholds)
    except HtoolsError as error:
        verdict = Verdict(CheckState.UNKNOWN, (str(error),), {})
    except (LookupError, TypeError, AttributeError):
        why = "the daemon is of another version; restart it"
        verdict = Verdict(CheckState.UNKNOWN, (why,), {})
    document = {"state": verdict.state.name, "reasons": verdict.reasons, "values": verdict.values}
    print(json.dumps(document, indent=2) if options.json else line(verdict, thresholds))
    return verdict.state


def read_threshold(text: str) -> tuple[str, Range]:
    """Read a threshold like ``age=5m`` or ``n1=2``. Raises DataError."""
    name, equals, found = text.partition("=")
    if name not in METRICS or not equals:
        raise DataError(f"{text!r}: expected METRIC=RANGE, METRIC one of {', '.join(METRICS)}")
    seconds = METRICS[name].unit == "s"
    inside, (low, colon, high) = found.startswith("@"), found.removeprefix("@").partition(":")
    try:
        ends = (
            _number(low, seconds) if low and colon else 0.0,
            inf if colon and not high else _number(high if colon else low, seconds),
        )
        if ends[0] > ends[1]:
            raise ValueError
    except ValueError:
        units = ", with a unit of s, m, h, d" if seconds else ""
        raise DataError(f"{text!r}: expected a range like 10, 10:, ~:10, 10:20 or @10:20{units}") from None
    written = ":".join("~" if end == -inf else "" if end == inf else _figure(end) for end in ends)
    return name, Range("@" * inside + (written if colon else _figure(ends[1])), *ends, inside)


def _number(text: str, seconds: bool) -> float:
    """Raises ValueError."""
    if text == "~":
        return -inf
    number = text.rstrip("".join(_UNITS)) if seconds else text
    unit = text[len(number) :]
    if unit not in _UNITS or not set(number) <= set("0123456789."):
        raise ValueError
    return float(number) * _UNITS[unit]


def _figure(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def judge(status: Mapping[str, Any], thresholds: Thresholds) -> Verdict:
    """Judge a status of the daemon.

    Each line under ATTENTION alarms with its severity. Thresholds replace the severity of the lines about
    their metric.
    """
    if status["cluster"]["master"] is None:
        return Verdict(CheckState.UNKNOWN, ("it is not known whether this node is the master",), {})
    values = {name: metric.value(status) for name, metric in METRICS.items()}
    replaced = {kind for name in thresholds for kind in METRICS[name].kinds}
    alarms = [
        (CheckState[each["severity"].upper()], each["text"])
        for each in status["attention"]
        if each["kind"] not in replaced
    ]
    alarms += _beyond(values, thresholds)
    alarms.sort(key=lambda alarm: -alarm[0])
    if alarms:
        return Verdict(alarms[0][0], tuple(text for _, text in alarms), values)
    if not status["cluster"]["master"]:
        return Verdict(CheckState.OK, ("this is not the master node",), {})
    if status["cluster"]["nodes"] is None or status["groups"] is None:
        return Verdict(CheckState.UNKNOWN, ("the cluster is not known yet",), values)
    if unknown := [name for name in thresholds if values[name] is None]:
        return Verdict(CheckState.UNKNOWN, (f"not known yet: {', '.join(unknown)}",), values)
    return Verdict(CheckState.OK, ("nothing needs attention",), values)


def _beyond(values: Mapping[str, float | None], thresholds: Thresholds) -> Iterator[tuple[CheckState, str]]:
    """Yield an alarm for each metric outside of its ranges."""
    for name, ranges in thresholds.items():
        value = values[name]
        alarms = [state for state, each in ranges.items() if value is not None and each.alarms(value)]
        if alarms:
            yield max(alarms), METRICS[name].text.format(_figure(value or 0))


def line(verdict: Verdict, thresholds: Thresholds) -> str:
    """Return the line that the check prints: the state, the reasons, and the performance data."""
    shown = [*verdict.reasons[:_SHOWN]]
    if more := len(verdict.reasons) - len(shown):
        shown.append(f"and {more} more")
    text = on_one_line("; ".join(shown)).replace("|", "/")
    data = " ".join(_performance(verdict.values, thresholds))
    return f"HTOOLSD {verdict.state.name} - {text}" + f" | {data}" * bool(data)


def _performance(values: Mapping[str, float | None], thresholds: Thresholds) -> Iterable[str]:
    for name, value in values.items():
        ranges = thresholds.get(name, {})
        limits = (
            ranges[state].text if state in ranges else ""
            for state in (CheckState.WARNING, CheckState.CRITICAL)
        )
        figure = "U" if value is None else _figure(value) + METRICS[name].unit
        yield f"{name}={figure};{';'.join(limits)};0"
