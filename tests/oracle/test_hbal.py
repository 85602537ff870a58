"""hbal finds the plans that Debian's finds, step by step, and prints them in the same words."""

import json
import random
import re
from pathlib import Path

import pytest

from ganeti_htools.cli import hbal
from ganeti_htools.model.cluster import Cluster
from tests.oracle.programs import ours, some_offline, theirs, write
from tests.support.clusters import Shape
from tests.support.oracle import Oracle
from tests.support.rows import any_cluster, generated

pytestmark = pytest.mark.oracle

CHANCES: tuple[tuple[float, tuple[str, ...]], ...] = (
    (0.15, ("--no-disk-moves",)),
    (0.1, ("--no-instance-moves",)),
    (0.15, ("--evac-mode",)),
    (0.15, ("--restricted-migration",)),
    (0.15, ("--ignore-soft-errors",)),
    (0.1, ("--ignore-dynu",)),
    (0.1, ("--max-cpu=1",)),
    (0.1, ("--min-disk=0.5",)),
    (0.1, ("--exclusion-tags=service,rack",)),
    (0.1, ("-l", "3")),
    (0.1, ("-g", "0.5", "--min-gain-limit=100")),
    (0.1, ("-e", "3.5")),
    (0.1, ("--first-job-group",)),
    (0.1, ("-v", "-v")),
    (0.1, ("-q",)),
)


def _arguments(rng: random.Random, described: Cluster, tmp_path: Path) -> list[str]:
    arguments = [
        "-t",
        write(tmp_path, described),
        "-G",
        rng.choice(described.groups).uuid,
        "-p+plist,slist",
        "-C",
    ]
    arguments += [word for chance, words in CHANCES if rng.random() < chance for word in words]
    arguments += some_offline(rng, described)
    names = [row.name for row in described.instances]
    for option in ("--select-instances", "--exclude-instances"):
        if rng.random() < 0.1 and names:
            arguments += [option, ",".join(rng.sample(names, len(names) // 2 + 1))]
    if rng.random() < 0.25 and names:
        loads = "".join(
            f"{name} {' '.join(f'{rng.random():.3f}' for _ in range(4))}\n" for name in [*names, names[0]]
        )
        (tmp_path / "loads").write_text(loads)
        arguments += ["-U", str(tmp_path / "loads")]
    return arguments


def _common(out: str) -> str:
    """What upstream prints as well."""
    table = r"^   Field +Before +After Weight\n(?:   \w+ +[\d.]+ +[\d.]+ +x[\d.]+\n)+"
    own = rf"^Loaded cluster ipolicy: .*\n|^Cost: .*\n|{table}"
    return re.sub(own, "", out, flags=re.MULTILINE)


def _common_errors(err: str) -> str:
    """What upstream prints on standard error as well."""
    return re.sub(
        r"^Left on nodes that are offline or drained:\n(  \S+ on .*\n)+", "", err, flags=re.MULTILINE
    )


@pytest.mark.parametrize("seed", range(60))
def test_the_same_plan(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    arguments = _arguments(rng, any_cluster(rng), tmp_path)
    expected, found = theirs(oracle, "hbal", arguments), ours(hbal.main, arguments)
    assert (found.status, _common(found.out), _common_errors(found.err)) == (
        expected.status,
        _common(expected.out),
        expected.err,
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_same_first_steps_where_most_moves_are_left_out_early(
    oracle: Oracle, tmp_path: Path, seed: int
) -> None:
    shape = Shape(nodes=18, instances=60, offline=seed % 2, tags=("location",) if seed > 1 else ())
    described = generated(seed, shape)
    arguments = ["-t", write(tmp_path, described), "-l", "4"]
    expected, found = theirs(oracle, "hbal", arguments), ours(hbal.main, arguments)
    assert _common(found.out) == expected.out


@pytest.mark.parametrize("seed", range(8))
def test_witness_shows_the_same_plan_twice(
    oracle: Oracle, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    rng = random.Random(seed)
    arguments = [*_arguments(rng, any_cluster(rng), tmp_path), f"--witness={oracle.hail}", "--json"]
    arguments = [each for each in arguments if each not in ("-C", "-q", "--first-job-group")]
    assert hbal.main(["--ganeti-version=3.0", *arguments]) == 0
    for each in json.loads(capsys.readouterr().out).get("witness", ()):
        one, other = ({**each[name], "seconds": 0} for name in ("ours", "theirs"))
        assert one | {"score": round(one["score"], 8)} == other
