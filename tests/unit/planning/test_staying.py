"""What hbal says of instances that its plan leaves on nodes that are offline or drained."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli import hbal
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.by_hand import instance

DRBD, EXT, PLAIN = DiskTemplate.DRBD, DiskTemplate.EXT, DiskTemplate.PLAIN
Left = list[dict[str, object]]


@pytest.fixture
def left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Left]:
    """What is left on ``n0``, which is drained; told alike as text and as JSON."""

    def ask(cluster: Cluster, *options: str) -> Left:
        path = tmp_path / "cluster.data"
        path.write_text(text.dump(cluster))
        words = ["-t", str(path), "-O", "n0", *options]
        assert hbal.main([*words, "--json"]) == 0
        found: Left = json.loads(capsys.readouterr().out)["left_on_offline_nodes"]
        assert hbal.main(words) == 0
        said = capsys.readouterr().err.partition("Left on nodes that are offline or drained:\n")
        lines = [f"  {each['instance']} on {', '.join(each['nodes'])}: {each['why']}" for each in found]  # type: ignore[arg-type]
        assert said[2].splitlines() == lines
        assert bool(said[1]) is bool(found)
        assert hbal.main([*words, "-q"]) == 0
        assert "Left on" not in capsys.readouterr().err
        return found

    return ask


def drained(*rows: object, mem: int = 10_000) -> Cluster:
    return by_hand.cluster({"n0": 10_000, "n1": mem, "n2": mem}, rows)  # type: ignore[arg-type]


def test_nothing_is_said_of_a_node_that_is_emptied(left: Callable[..., Left]) -> None:
    assert left(drained(instance("a", DRBD, "n0", "n1"), instance("b", EXT, "n0"))) == []


def test_local_disks(left: Callable[..., Left]) -> None:
    rows = instance("a", PLAIN, "n0"), instance("b", EXT, "n0"), instance("c", PLAIN, "n1")
    assert left(drained(*rows)) == [
        {"instance": "a", "nodes": ["n0"], "why": "plain instances cannot be moved"}
    ]


def test_no_room(left: Callable[..., Left]) -> None:
    (told,) = left(drained(instance("a", EXT, "n0", mem=6000), mem=5000))
    assert (told["instance"], told["why"]) == ("a", "it fits nowhere: FailMem: 2")


def test_a_secondary_without_room(left: Callable[..., Left]) -> None:
    cluster = drained(instance("a", DRBD, "n1", "n0"))
    full = replace(cluster.nodes[2], f_dsk=0)
    (told,) = left(replace(cluster, nodes=(*cluster.nodes[:2], full)))
    assert told["nodes"] == ["n0"]
    assert str(told["why"]).startswith("it fits nowhere: FailDisk: ")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--exclude-instances=a",), "the options leave it out"),
        (("-l0",), "the plan ends before"),
        (("--min-gain=100", "--min-gain-limit=100"), "moving it would not gain enough"),
        (
            ("--no-instance-moves", "--no-disk-moves"),
            "no other node is online, or the options do not allow the move",
        ),
        (("-O", "n1", "-O", "n2"), "no other node is online, or the options do not allow the move"),
    ],
)
def test_options(left: Callable[..., Left], options: tuple[str, ...], why: str) -> None:
    assert [each["why"] for each in left(drained(instance("a", EXT, "n0")), *options)] == [why]
