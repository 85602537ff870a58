"""What the history costs: the decision that is noted, and the daemon beside it."""

import time
from functools import partial
from pathlib import Path

import trio

from bench.timing import Part, measured
from ganeti_htools.deciding.summary import DecisionSummary
from htoolsd.config.config import Config
from htoolsd.config.settings import Settings
from htoolsd.history.database import HistoryDatabase
from htoolsd.history.entries import Decided, HistoryEntry, HistoryQuery
from htoolsd.history.history import MAX_IN_MEMORY, History


def decision(number: int) -> HistoryEntry:
    """A decision on one of 10,000 instances, with a choice of groups."""
    nodes = [f"node{number % 1000}.example.org", f"node{(number + 1) % 1000}.example.org"]
    name = f"instance{number % 10_000}.example.org"
    groups = [
        {"group": f"group{at}", "alloc_policy": "preferred", "score": 1.5, "nodes": nodes} for at in range(5)
    ]
    gist = DecisionSummary("allocate", [name], [nodes], ["group0"], 1.5)
    return Decided(float(number), gist, [{"instance": name, "groups": groups}], 20.0, {"live": 3.0})


def noting(directory: Path) -> float:
    """Seconds that a decision spends on being noted."""
    facts = [decision(number) for number in range(MAX_IN_MEMORY)]

    async def note() -> float:
        history = History(str(directory / "history"), Settings(Config()))
        began = time.perf_counter()
        for each in facts:
            history.note(each)
        return (time.perf_counter() - began) / len(facts)

    return trio.run(note)


def writing(directory: Path) -> float:
    """Seconds of a thread for 1,000 decisions at once."""
    database, batch = (
        HistoryDatabase(str(directory / "history")),
        [decision(number) for number in range(1000)],
    )
    began = time.perf_counter()
    database.add(batch)
    taken = time.perf_counter() - began
    database.close()
    return taken


def finding(directory: Path, number: int) -> float:
    """Seconds to find the decisions on an instance among so many."""
    database = HistoryDatabase(str(directory / "history"))
    database.add([decision(each) for each in range(number)])
    began = time.perf_counter()
    found = database.find(HistoryQuery(instance="instance77"))
    taken = time.perf_counter() - began
    assert len(found) == number // 10_000
    database.close()
    return taken


ROWS = [
    Part("history, a decision noted", noting, 1e-4),
    Part("history, 1,000 decisions written", writing, 1.0),
    Part("history, an instance found among 20,000 decisions", partial(finding, number=20_000), 0.1),
]
FULL_ROWS: list[Part] = []
TITLE = "The history of the daemon. A decision only pays for being noted; a thread writes."
NOTES: dict[str, str] = {}
lines = measured
