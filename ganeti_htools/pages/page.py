"""A whole page: one file that loads nothing, with the report of a tool or of the daemon."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ganeti_htools.model.state import State
from ganeti_htools.model.wording import counted
from ganeti_htools.pages.answer import (
    Figures,
    Step,
    answer,
    plan_figures,
    plan_sentence,
    state_figures,
    state_step,
)
from ganeti_htools.pages.faults import faults
from ganeti_htools.pages.groups import groups
from ganeti_htools.pages.history import history
from ganeti_htools.pages.markup import Markup, element, fold
from ganeti_htools.pages.moves import Jobsets, moves
from ganeti_htools.pages.nodes import nodes
from ganeti_htools.pages.reasons import reasons
from ganeti_htools.pages.score import score
from ganeti_htools.pages.sides import Side
from ganeti_htools.pages.storage import storage
from ganeti_htools.pages.style import POLICY, STYLE
from ganeti_htools.pages.week import week
from ganeti_htools.version import VERSION

_NOTES = 5  # lines about a plan; more are folded


def cluster_page(
    title: str,
    made: str,
    before: State,
    after: State | None = None,
    jobsets: Jobsets | None = None,
    notes: Sequence[str] = (),
    more: Iterable[Markup] = (),
    sentence: str = "",
    figures: Figures | None = None,
    time: str = "",
    command: str = "",
    tools: Mapping[str, str] | None = None,
) -> str:
    """Return the page about a cluster. ``made`` names the time.

    ``after`` is the state after a plan, and ``jobsets`` are its moves; None if there are none by its nature.
    ``sentence`` begins the answer, ``figures`` replace the usual ones. ``time`` says how long the moves take,
    ``command`` carries them out, ``tools`` begin other commands (:func:`.state_step`). ``notes`` are lines
    below the answer, ``more`` further sections.
    """
    side, then = Side.of(before), None if after is None else Side.of(after)
    if then is None:
        known, step = dict(figures or state_figures(side)), Step(sentence, "")
        if not figures:
            step = state_step(side, tools or {})
            step = step._replace(text=f"{sentence} {step.text}".strip())
        sections = [*more, *_state(side)]
    elif jobsets is None:
        step, known = Step(sentence, command), dict(figures or {})
        sections = [*more, nodes(side, then), groups(side, then), faults(side, None), storage(side, then)]
    else:
        known = plan_figures(side, then, jobsets, time)
        step = Step(f"{sentence} {plan_sentence(side, then, jobsets, time)}".strip(), command)
        why = reasons(side, then, (move.move for jobs in jobsets for move in jobs))
        parts = faults(side, then), nodes(side, then), groups(side, then), score(side, then)
        sections = [*more, *parts, moves(jobsets, why), storage(side, then)]
    lines = element("ul", *(element("li", note) for note in notes))
    listed = [fold(counted(len(notes), "remark"), lines) if len(notes) > _NOTES else lines] if notes else []
    return page(title, made, [*answer([step], known), *listed, *sections])


def daemon_page(
    title: str,
    made: str,
    state: State,
    attention: Sequence[Mapping[str, Any]],
    under_way: Figures,
    entries: Sequence[Mapping[str, Any]],
    days: int,
    hours: Mapping[str, Sequence[float]],
) -> str:
    """Return the page about the cluster of a daemon.

    ``attention`` are the lines of its status, ``under_way`` figures of what it does, ``entries`` those of its
    history of so many ``days``, ``hours`` of the week the used CPUs of nodes (:func:`.week`).
    """
    side = Side.of(state)
    steps = [Step(f"{each['text']}.", each["command"], each["severity"]) for each in attention]
    if not steps:
        well = "✓ Nothing needs attention. " * all(group["health"] == "healthy" for group in side.health)
        steps = [Step(f"{well}{state_step(side, {}).text}", "")]
    first = answer(steps, {**state_figures(side), **under_way})
    return page(title, made, [*first, *week(hours), *_state(side), history(entries, days)])


def _state(side: Side) -> Iterator[Markup]:
    """Yield the sections about a cluster as it is."""
    for section in (groups, nodes, faults, score, storage):
        yield section(side, None)


def page(title: str, made: str, content: Iterable[Markup]) -> str:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    about = element("p", f"Made {made} by htoolsd {VERSION}.", class_="quiet")
    body = element("body", element("main", element("h1", title), about, *content))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"
