"""Events of notifications, and the choice of those that are due. Pure functions.

Lasting conditions are the lines that need attention: an event is due when a line's name appears, and when it
is gone. Plans and policies are events by themselves: their entries in the history.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from htoolsd.history.entries import HistoryEntry

_ENDED_BADLY = {"failed": "failed", "interrupted": "was interrupted"}
# Kinds of lines that are no conditions: the history has plans, and a notification cannot announce itself.
_NO_CONDITIONS = {"plan", "notify"}
# Kinds of lines whose end nobody waits for.
_QUIET_ENDS = {"proposal", "fallback", "squeezing"}

Line = Mapping[str, Any]  # under ATTENTION, as JSON
Key = tuple[str, str]  # the kind of a line, and a name in it; empty for a line without names


class EventState(StrEnum):
    """The state of what an event is about."""

    BEGUN = "begun"
    OVER = "over"
    HAPPENED = "happened"


class Event(NamedTuple):
    """An event: a sentence for people, and the next command. ``time`` is seconds of the epoch."""

    time: float
    kind: str
    state: EventState
    severity: str
    text: str
    command: str
    names: Sequence[str]


class Announced(NamedTuple):
    """A condition that was announced at ``time`` with this text. ``over``: its end is announced, too."""

    kind: str
    name: str
    time: float
    text: str
    over: bool = False


class Change(NamedTuple):
    """An event to announce (None: nothing to say), and what is remembered once it is announced."""

    event: Event | None
    remembered: Mapping[Key, Announced | None]


def event_of(entry: HistoryEntry) -> Event | None:
    """Return the event of an entry of the history, None if nobody is notified of it."""
    if entry.kind == "decision":  # there are many, and their details are costly
        return None
    found = entry.to_json()
    names: tuple[str, ...]
    if entry.kind == "plan" and found["state"] in _ENDED_BADLY:
        text = plan_end(found["id"], found["tool"], found["state"], found["error"])
        names = (found["id"],)
        command = f"htoolsctl plan {found['id']}"
        return Event(entry.time, "plan", EventState.HAPPENED, "warning", text, command, names)
    if entry.kind == "policy" and found["outcome"] == "begun":
        text = f"policy {found['policy']} acts in group {found['group']}: {found['reason']}"
        names = (found["policy"], found["plan"])
        command = f"htoolsctl plan {found['plan']}"
        return Event(entry.time, "acted", EventState.HAPPENED, "info", text, command, names)
    return None


def plan_end(plan: str, tool: str, state: str, error: str | None) -> str:
    """Describe the end of a plan that failed or was interrupted."""
    return f"plan {plan} of {tool} {_ENDED_BADLY[state]}{f': {error}' if error else ''}"


def changes(
    announced: Mapping[Key, Announced], lines: Iterable[Line], now: float, repeat: float, complete: bool
) -> list[Change]:
    """Compare what was announced with the lines that need attention.

    What came back within ``repeat`` seconds after its announcement is not announced again before that time
    has passed. Nothing is over unless the lines are ``complete``.
    """
    current = {key: line for line in lines if line["kind"] not in _NO_CONDITIONS for key in _keys(line)}

    def may_begin(key: Key) -> bool:
        before = announced.get(key)
        return before is None or (before.over and not before.time <= now < before.time + repeat)

    begun = _by_text((key, line["text"]) for key, line in current.items() if may_begin(key))
    found = [_begun(keys, current[keys[0]], now) for keys in begun]
    if complete:
        gone = {key: each for key, each in announced.items() if key not in current}
        over = _by_text((key, each.text) for key, each in gone.items() if not each.over)
        found += [_over(keys, announced, now) for keys in over]
        old = [key for key, each in gone.items() if each.over and not each.time <= now < each.time + repeat]
        found += [Change(None, dict.fromkeys(old))] if old else []
    return found


def _keys(line: Line) -> list[Key]:
    return [(line["kind"], name) for name in line["names"] or ("",)]


def _by_text(keys: Iterable[tuple[Key, str]]) -> Iterator[list[Key]]:
    """Group keys by kind and text."""
    groups: dict[tuple[str, str], list[Key]] = {}
    for key, text in keys:
        groups.setdefault((key[0], text), []).append(key)
    yield from groups.values()


def _begun(keys: Sequence[Key], line: Line, now: float) -> Change:
    text = line["text"]
    event = Event(now, line["kind"], EventState.BEGUN, line["severity"], text, line["command"], _names(keys))
    return Change(event, {key: Announced(*key, now, text) for key in keys})


def _over(keys: Sequence[Key], announced: Mapping[Key, Announced], now: float) -> Change:
    remembered = {key: announced[key]._replace(over=True) for key in keys}
    kind, text = keys[0][0], f"over: {announced[keys[0]].text}"
    event = Event(now, kind, EventState.OVER, "info", text, "", _names(keys))
    return Change(None if kind in _QUIET_ENDS else event, remembered)


def _names(keys: Iterable[Key]) -> tuple[str, ...]:
    return tuple(name for _, name in keys if name)
