"""The section of a page about the history of the daemon."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti_htools.model.wording import counted, moment, shorten_names
from ganeti_htools.pages.markup import Markup, element, section, table

_SHOWN = 100  # the newest entries
_KINDS = {"decision": "Decisions", "plan": "Plans", "policy": "Decisions of policies", "call": "Calls"}

Entry = Mapping[str, Any]


def history(entries: Sequence[Entry], days: int) -> Markup:
    """Return the number of entries of each day, and the newest entries. Times are local."""
    title = f"History of the last {counted(days, 'day')}"
    if not entries:
        return section(title, element("p", "Nothing has been recorded."))
    counts: dict[str, Counter[str]] = {}
    for entry in entries:
        counts.setdefault(moment(entry["time"])[:10], Counter())[entry["kind"]] += 1
    totals = [(day, *(str(found[kind]) for kind in _KINDS)) for day, found in counts.items()]
    newest = [
        (moment(entry["time"]), _KINDS[entry["kind"]].split()[0].removesuffix("s"), describe(entry))
        for entry in reversed(entries[-_SHOWN:])
    ]
    return section(
        title,
        table("Entries of each day", ("Day", *_KINDS.values()), totals, (False, *[True] * len(_KINDS))),
        table("The newest entries", ("Time", "Kind", "Entry"), newest, (False, False, False)),
    )


def describe(entry: Entry) -> str:
    """Describe an entry of the history in a line. ``htoolsctl history`` has more of it."""
    match entry["kind"]:
        case "decision":
            places = ", ".join(":".join(nodes) for nodes in entry["places"])
            refused = f"refused: {entry['refusal']}" if entry.get("refusal") else ""
            asked = f"{entry['request']} {shorten_names(entry['instances'])}"
            return "; ".join(filter(None, (asked + f" → {places}" * bool(places), refused)))
        case "plan":
            done = sum(move["status"] == "success" for move in entry["moves"])
            error = f": {entry['error']}" if entry["error"] else ""
            moves = f"{done} of {counted(len(entry['moves']), 'move')} made"
            return f"{entry['tool']} plan {entry['id']} is {entry['state']}, {moves}{error}"
        case "policy":
            where = f" in {entry['group']}" if entry["group"] else ""
            return f"{entry['policy']}{where}: {entry['outcome']}: {entry['reason']}"
        case _:
            named = " ".join(f"{key}={value}" for key, value in entry["arguments"].items())
            return f"{entry['method']} {named}".rstrip()
