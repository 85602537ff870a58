"""A whole page: one file that loads nothing, with the report of a tool or of the daemon."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ganeti_htools.model.state import State
from ganeti_htools.pages import history
from ganeti_htools.pages.faults import faults
from ganeti_htools.pages.groups import facts, groups
from ganeti_htools.pages.markup import Markup, element
from ganeti_htools.pages.moves import Jobsets, moves
from ganeti_htools.pages.nodes import nodes
from ganeti_htools.pages.score import score
from ganeti_htools.pages.sides import Side
from ganeti_htools.pages.storage import storage
from ganeti_htools.pages.style import POLICY, STYLE
from ganeti_htools.version import VERSION


def cluster_page(
    title: str,
    made: str,
    before: State,
    after: State | None = None,
    jobsets: Jobsets | None = None,
    notes: Sequence[str] = (),
    more: Iterable[Markup] = (),
) -> str:
    """Return the page about a cluster. ``made`` names the time.

    ``after`` is the state after a plan, and ``jobsets`` are its moves; None if there are none by its nature.
    ``notes`` are lines at the top, ``more`` further sections.
    """
    sides = Side.of(before), None if after is None else Side.of(after)
    moved = [] if jobsets is None else [moves(jobsets)]
    return page(title, made, notes, [facts(*sides), *more, *moved, *_sections(*sides)])


def daemon_page(
    title: str,
    made: str,
    state: State,
    attention: Sequence[Mapping[str, Any]],
    entries: Sequence[Mapping[str, Any]],
    days: int,
) -> str:
    """Return the page about the cluster of a daemon.

    ``attention`` are the lines of its status, ``entries`` those of its history of so many ``days``.
    """
    side = Side.of(state)
    told, past = history.attention(attention), history.history(entries, days)
    return page(title, made, (), [facts(side, None), told, *_sections(side, None), past])


def _sections(before: Side, after: Side | None) -> Iterator[Markup]:
    for section in (groups, nodes, score, storage, faults):
        yield section(before, after)


def page(title: str, made: str, notes: Sequence[str], content: Iterable[Markup]) -> str:
    """Return a page with these sections."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    listed = [element("ul", *(element("li", note) for note in notes))] if notes else []
    body = element(
        "body",
        element(
            "main",
            element("h1", title),
            element("p", f"Made {made} by htoolsd {VERSION}.", class_="quiet"),
            *listed,
            *content,
        ),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"
