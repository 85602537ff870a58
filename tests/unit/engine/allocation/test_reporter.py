"""Events of a reporter: the start of each instance, tries and judgements, the end."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.decide import decide
from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import (
    Allocate,
    AllocateSecondary,
    MultiAllocate,
    NodeEvacuate,
    Placement,
    Relocate,
    Request,
)
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, EvacMode
from tests.support.by_hand import cluster, instance

OPTIONS = PlacementOptions(capacity=False)
EVENTS = [name for name in vars(Reporter) if not name.startswith("_")]


class Recorder(Reporter):
    """Keeps the names of the events."""

    def __init__(self) -> None:
        self.events: list[str] = []


def _note(name: str) -> Callable[..., None]:
    return lambda recorder, *_facts, **_more: recorder.events.append(name)


for _name in EVENTS:
    setattr(Recorder, _name, _note(_name))


def new(template: DiskTemplate, mem: int = 1_000) -> Placement:
    asked = replace(instance("new", template, "", mem=mem), disks=(Disk(1024, spindles=1),))
    return Placement(asked, template.required_nodes)


def state_of(request: Request, excl_stor: bool = False) -> State:
    here = [
        instance("drbd", DiskTemplate.DRBD, "a", "b"),
        instance("ext", DiskTemplate.EXT, "a"),
        instance("plain", DiskTemplate.PLAIN, "a"),
    ]
    match request:
        case Allocate(placement):
            asked = [placement.instance]
        case MultiAllocate(placements):
            asked = [each.instance for each in placements]
        case _:
            asked = []
    return derive(cluster(dict.fromkeys("abcd", 10_000), here, excl_stor=excl_stor, f_spindles=64), asked)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Allocate(new(DiskTemplate.PLAIN)), "starting trying judged placed"),
        (Allocate(new(DiskTemplate.DRBD)), "starting trying judged_pairs placed"),
        (AllocateSecondary("plain"), "starting trying judged_pairs placed"),
        (Relocate("drbd", 1, ("b",)), "starting trying judged placed"),
        (NodeEvacuate(("ext",), EvacMode.ALL), "starting trying judged placed"),
        (NodeEvacuate(("drbd",), EvacMode.PRIMARY), "starting judged placed"),
        (NodeEvacuate(("drbd",), EvacMode.ALL), "starting trying judged_exchanges placed"),
        (NodeEvacuate(("plain", "ext"), EvacMode.ALL), "starting failed starting trying judged placed"),
        (
            MultiAllocate((new(DiskTemplate.PLAIN), new(DiskTemplate.DRBD))),
            "starting trying judged placed starting trying judged_pairs placed",
        ),
    ],
    ids=str,
)
def test_reporter_events_of_a_request(request_: Request, expected: str) -> None:
    recorder = Recorder()
    decide(state_of(request_), request_, OPTIONS, recorder)
    assert recorder.events == expected.split()


@pytest.mark.parametrize("template", [DiskTemplate.PLAIN, DiskTemplate.DRBD])
def test_reporter_events_on_exclusive_storage(template: DiskTemplate) -> None:
    request, recorder = Allocate(new(template)), Recorder()
    decide(state_of(request, excl_stor=True), request, OPTIONS, recorder)
    assert recorder.events == ["starting", "trying", "judged_losses", "placed"]


def test_nodes_that_are_not_tried_are_rejected() -> None:
    request, recorder = Allocate(new(DiskTemplate.DRBD), ("a",)), Recorder()
    with pytest.raises(RequestFailed):
        decide(state_of(request), request, OPTIONS, recorder)
    assert recorder.events == ["starting", "trying", "rejecting"]


def test_every_event_may_be_ignored() -> None:
    facts = {"starting": 3, "trying": 2, "rejecting": 2, "judged": 2, "judged_exchanges": 3}
    for name in EVENTS:
        getattr(SILENT, name)(*[None] * facts.get(name, 1))
