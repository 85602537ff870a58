"""Nodes are powered down and up as Debian's hsqueeze plans it, with the same moves; each group by itself."""

import random
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli import hsqueeze
from ganeti_htools.engine.squeezing import power_down, reserve
from ganeti_htools.model.cluster import Cluster
from tests.oracle.programs import squeeze_commands
from tests.support.clusters import Shape
from tests.support.oracle import Oracle
from tests.support.rows import generated

pytestmark = pytest.mark.oracle


@pytest.fixture(autouse=True)
def as_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Theirs keeps neither N+1 nor a second node, and looks for no better set of nodes."""
    monkeypatch.setattr(reserve, "is_empty", lambda _wanted: True)
    monkeypatch.setattr(power_down, "better_set", lambda _group, found, _wishes: found)


EXTERNAL = {"ext": 6, "sharedfile": 2, "rbd": 1, "diskless": 1}
SHAPES = {
    "external": Shape(nodes=6, instances=24, templates=EXTERNAL),
    "full": Shape(nodes=5, instances=25, templates=EXTERNAL, fill=0.8),
    "tags": Shape(nodes=6, instances=20, templates=EXTERNAL, tags=("exclusion", "migration", "location")),
    "mixed": Shape(nodes=7, instances=16, templates={"ext": 9, "drbd": 1, "plain": 1, "file": 1}),
    "forthcoming": Shape(nodes=5, instances=20, templates=EXTERNAL, forthcoming=0.2, down=0.3),
}


def squeezable(seed: int, shape: Shape, asleep: int = 0) -> Cluster:
    """A cluster with a master, and with some empty nodes that may be powered up."""
    rng = random.Random(seed)
    made = generated(seed, shape)
    master = next(row for row, node in enumerate(made.nodes) if not node.offline)
    nodes = list(made.nodes)
    nodes[master] = replace(nodes[master], master=True)
    model = nodes[master]
    nodes += [
        replace(
            model,
            name=f"spare{number}.example.org",
            master=False,
            offline=True,
            f_mem=int(model.t_mem) - model.n_mem,
            f_dsk=int(model.t_dsk),
            tags=("htools:standby:auto",) if number < asleep else (),
        )
        for number in range(asleep + 1 if asleep else 0)
    ]
    tight = tuple(
        replace(row, mem=row.mem + rng.randrange(200), auto_balance=rng.random() < 0.97)
        for row in made.instances
    )
    return replace(made, nodes=tuple(nodes), instances=tight)


def squeeze(
    oracle: Oracle, tmp_path: Path, capsys: pytest.CaptureFixture[str], described: Cluster, *options: str
) -> str:
    """What both say and save, which must be the same."""
    source = tmp_path / "cluster.data"
    source.write_text(text.dump(described), "utf-8")
    argv = ["-t", str(source), "-v", "-C", *options, "-S"]
    theirs = subprocess.run(
        [oracle.hbal.with_name("hsqueeze"), *argv, str(tmp_path / "theirs")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert hsqueeze.main([*argv, str(tmp_path / "ours")]) == theirs.returncode == 0
    told = capsys.readouterr().out
    assert squeeze_commands(told) == squeeze_commands(theirs.stdout)
    assert saved(tmp_path, "ours") == saved(tmp_path, "theirs")
    return told


def saved(directory: Path, prefix: str) -> Mapping[str, str]:
    paths = {path.suffix: path.read_text("utf-8") for path in directory.glob(f"{prefix}.*")}
    assert set(paths) == {".original", ".squeezed"}
    return paths


def test_what_a_second_run_would_power_down_goes_with_the_first(
    oracle: Oracle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Theirs ends with fewer nodes powered down, and goes on when it is run on what it left."""
    described = squeezable(1, SHAPES["full"])
    source, options = tmp_path / "cluster.data", ["--target-resources=8", "--minimal-resources=0"]
    source.write_text(text.dump(described), "utf-8")
    assert hsqueeze.main(["-t", str(source), "--no-headers", *options, "-S", str(tmp_path / "ours")]) == 0
    ours = set(capsys.readouterr().out.split())
    theirs = set[str]()
    for _ in range(2):
        argv = [oracle.hbal.with_name("hsqueeze"), "-t", str(source), "--no-headers", *options]
        told = subprocess.run(
            [*map(str, argv), "-S", str(tmp_path / "t")], capture_output=True, text=True, check=True
        )
        assert not ours <= theirs
        theirs |= set(told.stdout.split())
        source = tmp_path / "t.squeezed"
    assert theirs <= ours
    assert hsqueeze.main(["-t", str(tmp_path / "ours.squeezed"), *options]) == 0
    assert capsys.readouterr().out == "'No action'\n"


@pytest.mark.parametrize("factor", ["0", "8", "50"])
@pytest.mark.parametrize("kind", [kind for kind in SHAPES if kind != "full"])
def test_powering_down(
    oracle: Oracle, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, factor: str
) -> None:
    described = squeezable(list(SHAPES).index(kind), SHAPES[kind])
    squeeze(oracle, tmp_path, capsys, described, f"--target-resources={factor}", "--minimal-resources=0")


@pytest.mark.parametrize("factor", ["10", "60", "150"])
@pytest.mark.parametrize("kind", ["external", "full", "tags"])
def test_powering_up(
    oracle: Oracle, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, factor: str
) -> None:
    described = squeezable(7, SHAPES[kind], asleep=3)
    squeeze(oracle, tmp_path, capsys, described, f"--minimal-resources={factor}", "--target-resources=99")


@pytest.mark.parametrize(("factor", "asleep"), [("0", 0), ("8", 0), ("60", 3)])
@pytest.mark.parametrize("seed", range(3))
def test_several_groups_are_planned_like_one_after_the_other(
    oracle: Oracle, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int, factor: str, asleep: int
) -> None:
    shape = Shape(nodes=8, instances=24, templates={"ext": 9, "drbd": 1, "plain": 1}, groups=2, down=0.2)
    whole = squeezable(seed, shape, asleep)
    options = [f"--target-resources={factor}", f"--minimal-resources={factor if asleep else 0}"]
    plans = []
    for group in whole.groups:
        nodes = tuple(node for node in whole.nodes if node.group == group.uuid)
        here = {node.name for node in nodes}
        alone = replace(
            whole,
            groups=(group,),
            nodes=nodes,
            instances=tuple(row for row in whole.instances if row.pnode in here),
        )
        directory = tmp_path / group.name
        directory.mkdir()
        told = squeeze(oracle, directory, capsys, alone, *options)
        plans.append((group.uuid, "to online" in told, saved(directory, "theirs")))
    lacking = any(up for _, up, _ in plans)
    source = tmp_path / "cluster.data"
    source.write_text(text.dump(whole), "utf-8")
    assert hsqueeze.main(["-t", str(source), "-S", str(tmp_path / "ours"), *options]) == 0
    assert ("to online" in capsys.readouterr().out) == lacking
    after = text.parse(saved(tmp_path, "ours")[".squeezed"], "saved")
    for uuid, up, files in plans:
        alone = text.parse(files[".squeezed" if up == lacking else ".original"], "saved")
        assert tuple(node for node in after.nodes if node.group == uuid) == alone.nodes
        here = {node.name for node in alone.nodes}
        assert tuple(row for row in after.instances if row.pnode in here) == alone.instances
