"""Marks of maintenance in tags, for people: who empties nodes since when, and how far a roll is."""

from datetime import datetime
from typing import Any

from ganeti_htools.cli.report.layout import first_of


def local_time(stamp: str) -> str:
    """Return a UTC time like 20261123T184500Z as local time; another text is returned as it is."""
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%S%z").astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return stamp


def by_local_time(name: str) -> str:
    """Describe a run or roll, which is called UTC:WHO in tags."""
    since, _, who = name.partition(":")
    return f"{local_time(since)}{f' by {who}' if who else ''}"


def maintenance_line(node: Any) -> str:
    """Describe a node in maintenance: since when, by whom and why."""
    facts = {"since": local_time(node["since"]), "by": node["by"]}
    parts = [f"{word} {value}" for word, value in facts.items() if value]
    return " ".join([node["name"], *parts]) + (f": {node['reason']}" if node["reason"] else "")


def roll_line(roll: Any) -> str:
    """Describe a roll of maintenance: since when, by whom, and where it is."""
    parts = [
        f"{word} {first_of(roll[key])}" for word, key in (("done", "done"), ("at", "working")) if roll[key]
    ]
    return f"roll of {by_local_time(roll['name'])}: {'; '.join(parts)}"
