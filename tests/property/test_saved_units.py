"""What is saved after moves (``-S``) adds up: what a unit has free is its total less the disks on it."""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ganeti_htools.backends import text
from ganeti_htools.cli import hail, hbal
from ganeti_htools.model.cluster import Cluster
from tests.support.clusters import Shape, cluster
from tests.support.messages import encode, message, random_allocate
from tests.support.storage_units import on_units, taken, with_units
from tests.support.text_format import text as text_of

unhurried = settings(
    max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


def saved(path: Path) -> Cluster:
    return text.parse(path.read_text("utf-8"), path.name)


@unhurried
@given(st.integers(0, 10_000))
def test_saved_units_are_read_back_after_balancing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    data = with_units(cluster(seed, Shape(nodes=6, instances=25, drained=1)), random.Random(seed))
    file = tmp_path / "cluster.data"
    file.write_text(text_of(data), "utf-8")
    assert hbal.main(["-t", str(file), "-l", "5", "-q", "-S", str(tmp_path / "x")]) in (
        0,
        1,
    )
    capsys.readouterr()
    before, after = saved(tmp_path / "x.original"), saved(tmp_path / "x.balanced")
    assert before == saved(file)
    for each in (before, after):
        assert all(figure == disks for figure, disks in taken(each).values())
    assert [row.disks for row in before.instances] == [row.disks for row in after.instances]


@unhurried
@given(st.integers(0, 10_000))
def test_saved_units_are_read_back_after_allocation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    rng = random.Random(seed)
    data = with_units(cluster(seed, Shape(nodes=5, instances=20)), rng)
    request = on_units(rng, data, random_allocate(rng, "new", rng.choice(("plain", "drbd", "file"))))
    file = tmp_path / "request"
    file.write_text(encode(message(data, request)), "utf-8")
    for path in tmp_path.glob("x.*"):
        path.unlink()
    assert hail.main([str(file), "-S", str(tmp_path / "x")]) == 0
    placed = '"success": true' in capsys.readouterr().out
    after = saved(tmp_path / ("x.post-ialloc" if placed else "x.pre-ialloc"))
    assert any(row.name == "new" for row in after.instances) is placed
    assert all(figure == disks for figure, disks in taken(after).values())
