"""A whole page: one file that loads nothing, with the report of a tool or of the daemon."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ganeti_htools.engine.capacity.storage import ClusterStorage, storage_of
from ganeti_htools.model.state import State
from ganeti_htools.model.units_in_use import units_in_use
from ganeti_htools.model.wording import counted, moment, shorten_names, size
from ganeti_htools.pages import pictures
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
from ganeti_htools.pages.markup import Markup, element, fold, section, table
from ganeti_htools.pages.moves import Jobsets, moves, reasons
from ganeti_htools.pages.nodes import nodes, resources
from ganeti_htools.pages.score import score
from ganeti_htools.pages.sides import Side, change, figure, percent, short_name
from ganeti_htools.pages.style import POLICY, STYLE
from ganeti_htools.pages.week import week
from ganeti_htools.version import VERSION

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


def storage(before: Side, after: Side | None) -> Markup:
    """Return the storage units and pools; an empty text if nodes report none."""
    if not before.state.units.reported:
        return Markup()
    ends = [{room[0]: room for room in _rooms(_storage(end.state))} for end in (before, after) if end]
    figures = []
    for name, (_, where, _, total) in ends[-1].items():
        # There is no figure before of a pool that only new instances use.
        figures.append((name, where, [end[name][2] if name in end else None for end in ends], total))
    rows, bars = [], []
    for name, where, free, total in figures:
        left = change(["unknown" if each is None else size(each) for each in free])
        rows.append((name, where, "unknown" if total is None else size(total), left))
        if total and None not in free:
            used = [1 - each / total for each in free if each is not None]
            text = change([percent(each) for each in used])
            bars.append(
                pictures.row(short_name(name), pictures.usage(used[-1], used[0] if after else None), text)
            )
    caption = f"Storage units and pools{', before → after the plan' if after else ''}"
    listed = table(caption, ("Unit", "Nodes", "Total", "Free"), rows, (False, True, True, True))
    legend = element("p", "The bar is the used share of all nodes together.", class_="quiet")
    return section("Storage units", legend, element("div", *bars, class_="long"), listed)


def _storage(state: State) -> ClusterStorage:
    cluster = state.to_cluster()
    return storage_of(cluster, units_in_use(cluster))


def _rooms(told: ClusterStorage) -> Iterator[tuple[str, str, int | None, int | None]]:
    """Yield name, number of nodes, free and total MiB of each unit and pool."""
    for unit in told.units:
        free, total = (sum(getattr(node, each) for node in unit.nodes) for each in ("free", "total"))
        yield f"{unit.type}/{unit.key}".removesuffix("/"), str(len(unit.nodes)), free, total
    for pool in told.pools:
        yield f"{pool.type}/{pool.key}".removesuffix("/"), str(len(pool.nodes)), pool.free, pool.total


def groups(before: Side, after: Side | None) -> Markup:
    """Return the table of node groups, those in need first, then the most uneven."""
    sides = [before, *([after] if after else [])]
    if not before.health:
        return section("Node groups", element("p", "No group has nodes."))
    shares = [np.array([each.shares for each in resources(side.state)[:1]])[0] for side in sides]
    names = np.array([group.name for group in before.state.cluster.groups])
    scopes = {group["name"]: names[before.state.group] == group["name"] for group in before.health}
    rows = []
    for ends in zip(*(side.health for side in sides), strict=True):
        group, scope = ends[0], scopes[ends[0]["name"]]
        top = np.flatnonzero(scope)[int(shares[-1][scope].argmax())]
        cells = (
            group["name"],
            change([end["health"] for end in ends]),
            str(group["nodes"]),
            change([str(end["instances"]) for end in ends]),
            change([percent(float(each[scope].mean())) for each in shares]),
            f"{before.nodes[top]} {percent(float(shares[-1][top]))}",
            change([figure(end["score"]) for end in ends]),
        )
        rows.append(((ends[-1]["health"] == "healthy", -(group["score"] or 0.0)), cells))
    header = ("Group", "Health", "Nodes", "Instances", "Memory used", "Fullest node", "Score")
    rows.sort(key=lambda row: row[0])
    numeric = (False, False, True, True, True, True, True)
    caption = "Before → after the plan" if after else "Those in need first"
    return section("Node groups", table(caption, header, [cells for _, cells in rows], numeric))


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
    for part in (groups, nodes, faults, score, storage):
        yield part(side, None)


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
