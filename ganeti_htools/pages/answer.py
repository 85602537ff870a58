"""The first screen of a page: one sentence that answers, the figures that matter, and what to do."""

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import NamedTuple

from ganeti_htools.model.node_state import NodeState
from ganeti_htools.model.wording import counted, shorten_names, size
from ganeti_htools.pages.markup import Markup, command, element, fold
from ganeti_htools.pages.moves import Jobsets
from ganeti_htools.pages.nodes import fullest
from ganeti_htools.pages.sides import Side, change, figure

Figures = Mapping[str, str]
_STEPS = 5  # what to do besides the first; more is folded


class Step(NamedTuple):
    """A thing to do: a sentence, and the command. ``severity`` is that of a fault, else empty."""

    text: str
    command: str
    severity: str = ""

    def sentence(self, kind: str | None = None) -> Markup:
        """Return the sentence as a paragraph."""
        severity = [element("b", f"{self.severity}: ", class_="alarm")] if self.severity else []
        return element("p", *severity, self.text, class_=kind)


def answer(steps: Sequence[Step], figures: Figures) -> Iterator[Markup]:
    """Yield the first screen: the first step is the answer, without a command if there is nothing to do."""
    first, *others = steps
    yield first.sentence("answer")
    yield from [command(first.command)] if first.command else []
    listed = (element("li", f"{name} ", element("b", value)) for name, value in figures.items())
    yield element("ul", *listed, class_="facts")
    drawn = [element("div", step.sentence(), command(step.command), class_="step") for step in others]
    yield from drawn[:_STEPS]
    if more := drawn[_STEPS:]:
        yield fold(f"{len(more)} more", *more)


def plan_sentence(before: Side, after: Side, jobsets: Jobsets, time: str) -> str:
    """Answer what a plan changes, what it costs (``time``, if known), and whether anything gets less safe.

    The figures have the rest of ``time``, in parentheses: where the speed comes from.
    """
    made = [move for jobs in jobsets for move in jobs]
    cost = [counted(len(made), "move"), f"{size(sum(move.disk + move.memory for move in made))} to copy"]
    parts = [", ".join([*cost, *([time.partition(" (")[0]] if time else [])])]
    later = after.scores
    uneven = [
        f"{name} {change([figure(was), figure(later[name])])}"
        for name, was in before.scores.items()
        if was != later[name]
    ]
    if uneven:
        parts.append(f"unevenness of {shorten_names(uneven)}")
    return f"{'; '.join([*parts, safety(before, after)])}."


def safety(before: Side, after: Side) -> str:
    """Describe which instances gain or lose redundancy."""
    lost, gained = sorted(after.lost - before.lost), before.lost - after.lost
    if lost:
        return f"{shorten_names(lost)} would no longer come back after the loss of a node"
    more = f"{counted(len(gained), 'instance')} more would come back after the loss of a node"
    return more if gained else "nothing gets less safe"


def state_step(side: Side, tools: Mapping[str, str]) -> Step:
    """Answer whether all is well; if not, name the first fault of the group that is worst off.

    ``tools`` begin the commands of the tools that read this cluster, by name; empty for no command.
    """
    ill = [group for group in side.health if group["health"] != "healthy"]
    if not ill:
        many = len(side.health)
        which = f"All {many} node groups are healthy" if many > 1 else "The node group is healthy"
        return Step(
            f"{which}: all instances survive the loss of any node." if many else "No node group has nodes.",
            "",
        )
    ill.sort(key=lambda group: -len(group["unrecoverable"]["instances"]))
    name, lost, also = ill[0]["name"], ill[0]["unrecoverable"], [group["name"] for group in ill[1:]]
    faults, tool, option = [], "hbal", f"--group={name}"
    if ill[0]["health"] == "unhealthy" or not lost["nodes"]:
        faults.append(f"is {ill[0]['health']}: {ill[0]['why'][0]}")
    others = f" {shorten_names(also)} {'needs' if len(also) == 1 else 'need'} attention too." if also else ""
    if lost["nodes"]:
        back = f"{counted(len(lost['instances']), 'instance')} would not come back"
        if not faults:
            tool, option = "hcheck", f"--what-if-lost={lost['nodes'][0]}"
        faults.append(f"cannot lose {shorten_names(lost['nodes'])}: {back}")
    return Step(
        f"Group {name} {'; it '.join(faults)}.{others}", f"{tools[tool]} {quote(option)}" if tools else ""
    )


def state_figures(side: Side) -> dict[str, str]:
    state, good = side.state, sum(group["health"] == "healthy" for group in side.health)
    closed = sum(state.node_state(row) is not NodeState.IN_USE for row in range(len(state.group)))
    return {
        "Healthy groups": f"{good} of {len(side.health)}",
        "Nodes": f"{len(state.group)}{f', {closed} not in use' * bool(closed)}",
        "Instances": str(len(state.cluster.instances)),
        "Fullest node": fullest(side),
    }


def plan_figures(before: Side, after: Side, jobsets: Jobsets, time: str) -> dict[str, str]:
    made = [move for jobs in jobsets for move in jobs]
    healthy = [sum(group["health"] == "healthy" for group in side.health) for side in (before, after)]
    ends = before, after
    return {
        "Moves": f"{len(made)} in {counted(len(jobsets), 'jobset')}" if made else "none",
        "To copy": size(sum(move.disk + move.memory for move in made)),
        **({"Copying takes": time} if time else {}),
        "Healthy groups": f"{change([str(each) for each in healthy])} of {len(before.health)}",
        "Fullest node": change([fullest(end) for end in ends]),
    }
