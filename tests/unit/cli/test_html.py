"""``--html`` of the tools: a page in a file, and the usual output."""

from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.cli import hbal, hregroup, hspace, hsqueeze

EXAMPLES = Path(__file__).parents[3] / "examples"
RUNS: list[tuple[Any, str, tuple[str, ...], tuple[str, ...]]] = [
    (
        hbal,
        "drifted.data",
        ("--all-groups",),
        (
            "gnt-instance migrate -f web1",
            "unevenness of rack1 ",
            " at 100 Mbit/s; ",
            "Copying takes",
            "disk load spread: 0.",
        ),
    ),
    (hbal, "balanced.data", (), ("No instance moves.",)),
    (
        hbal,
        "idle.data",
        ("--front=2",),
        (
            "2 plans to pick from, up to 1 move, 4.0 GiB to copy; unevenness 1.57 → 1.56; --pick=N",
            "Plans to pick from: ",
        ),
    ),
    (
        hspace,
        "storage.data",
        (),
        ("more instances of the standard size fit", "Instances that fit", "Storage units"),
    ),
    (
        hspace,
        "storage.data",
        ("--disk-template=rbd", "--tiered-alloc=100g,8g,4"),
        ("rados",),
    ),  # a pool that no instance has used
    (
        hsqueeze,
        "idle.data",
        (),
        (
            "4 nodes to power down: node2, ",
            "in use → standby",
            "empties node2, to power it down",
            " at 100 Mbit/s; ",
        ),
    ),
    (
        hregroup,
        "racks.data",
        ("groups",),
        ("; it cannot lose node12: 2 instances would not", "hbal -t"),
    ),
    (
        hregroup,
        "racks.data",
        ("redistribute",),
        ("Repaired: rack1", "gnt-instance", "leaves node11, which is offline", " at 100 Mbit/s; "),
    ),
]


@pytest.mark.parametrize(("tool", "data", "options", "words"), RUNS)
def test_writes_page_besides_the_usual_output(
    tool: Any,
    data: str,
    options: tuple[str, ...],
    words: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    short_search: None,
) -> None:
    command = ["-t", str(EXAMPLES / data), *options]
    tool.main(command)
    usual = capsys.readouterr().out
    tool.main([*command, f"--html={tmp_path / 'page.html'}"])
    assert capsys.readouterr().out == usual
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert [word for word in words if word not in page] == []
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_cluster_without_instances_has_a_page(tmp_path: Path) -> None:
    assert hbal.main(["--simulate=p,2,1g,1g,1", f"--html={tmp_path / 'page.html'}"]) == 0
    assert "The cluster has no instances." in (tmp_path / "page.html").read_text("utf-8")


def test_explanation_has_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["-t", str(EXAMPLES / "balanced.data"), "--explain=web1", f"--html={tmp_path / 'page.html'}"]
    assert hbal.main(command) == 1
    assert "--html: a page is about a plan" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
