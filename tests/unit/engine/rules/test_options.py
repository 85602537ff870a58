"""Each option of a decision changes what is possible, or where."""

from dataclasses import replace

import pytest

from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.parameters import placement_options
from ganeti_htools.engine.decide import Decision, decide
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import Allocate, Placement
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

DRBD, EXT, PLAIN = DiskTemplate.DRBD, DiskTemplate.EXT, DiskTemplate.PLAIN


def decided(
    options: PlacementOptions, here: list[Instance], new: Instance, offline: int = 20_000
) -> Decision:
    """A new instance on two nodes of 10,000 MiB, beside an offline one that has so many."""
    made = cluster({"a": 10_000, "b": 10_000, "c": offline}, here)
    nodes = tuple(replace(row, offline=row.name == "c") for row in made.nodes)
    return decide(derive(replace(made, nodes=nodes), [new]), Allocate(Placement(new, 1)), options)


@pytest.mark.parametrize(
    ("with_option", "without", "here", "offline", "new", "why"),
    [
        pytest.param(
            PlacementOptions(capacity=False),
            PlacementOptions(),
            [instance("old", EXT, "a", mem=6_000)],
            1_000,
            instance("new", EXT, "", mem=6_000),
            "FailN1",
            id="neither node could take the instances of the other",
        ),
        pytest.param(
            PlacementOptions(accept_existing=True),
            PlacementOptions(),
            [instance("old", EXT, "c", mem=15_000)],
            20_000,
            instance("new", EXT, ""),
            "FailN1",
            id="an offline node has an instance that no other can take",
        ),
        pytest.param(
            PlacementOptions(capacity=False, ignore_soft_errors=True),
            PlacementOptions(capacity=False),
            [instance("old", DRBD, "a", "b", mem=6_000)],
            20_000,
            instance("new", PLAIN, "", mem=5_000),
            "FailMem",
            id="a secondary keeps memory free",
        ),
    ],
)
def test_option_makes_a_refused_placement_possible(
    with_option: PlacementOptions,
    without: PlacementOptions,
    here: list[Instance],
    offline: int,
    new: Instance,
    why: str,
) -> None:
    with pytest.raises(RequestFailed, match=f"failure reasons: .*{why}: "):
        decided(without, here, new, offline)
    assert decided(with_option, here, new, offline).result


def test_only_some_nodes() -> None:
    (placed,) = decided(PlacementOptions(restrict_to=("a",)), [], instance("new", EXT, "")).result  # type: ignore[misc]
    assert placed.nodes == (0,)
    (placed,) = decided(PlacementOptions(), [], instance("new", EXT, "")).result  # type: ignore[misc]
    assert placed.nodes != (0,)


def test_defaults_are_those_of_the_tools() -> None:
    assert placement_options(CommandLine()) == PlacementOptions()
