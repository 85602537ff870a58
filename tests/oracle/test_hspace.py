"""hspace finds room for the same instances as Debian's, and says so in the same words."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.cli import hspace
from tests.oracle.hail import DATA, FILES, NO_FILES
from tests.oracle.programs import Result, ours, theirs
from tests.support.clusters import MIXED, Json, Shape, cluster, ipolicy
from tests.support.oracle import Oracle
from tests.support.text_format import text

pytestmark = pytest.mark.oracle

TEMPLATES = ("drbd", "drbd", "plain", "ext", "diskless", "sharedfile", "file")
NAMED = [name for name in FILES if name.startswith("hspace-")]


def shape(rng: random.Random) -> Shape:
    made = Shape(
        nodes=rng.randint(2, 5),
        instances=rng.randint(0, 16),
        groups=rng.choice((1, 1, 2)),
        templates=rng.choice((MIXED, {"drbd": 1}, {"plain": 1, "ext": 1})),
        fill=rng.choice((0.2, 0.4, 0.6, 0.85)),
        offline=rng.choice((0, 0, 0, 1)),
        down=rng.choice((0, 0.1)),
        tags=rng.choice(((), ("location",), ("exclusion",))),
        policies=rng.random() < 0.3,
        exclusive_storage=rng.random() < 0.2,
    )
    if made.exclusive_storage and list(made.templates) == ["drbd"]:  # which Ganeti does not allow
        return replace(made, exclusive_storage=False)
    return made


def sizes(rng: random.Random) -> Json:
    """A policy whose largest and standard instances fit a few times."""
    policy: dict[str, Any] = ipolicy()
    (bounds,) = policy["minmax"]
    largest = {
        "memory-size": rng.choice((2048, 4096)),
        "disk-size": rng.choice((10240, 20480)),
        "cpu-count": rng.choice((2, 4)),
        "spindle-use": rng.choice((1, 4)),
    }
    policy["minmax"] = [{"min": bounds["min"], "max": bounds["max"] | largest}]
    if rng.random() < 0.3:
        policy["minmax"] += [{"min": bounds["min"], "max": bounds["max"] | largest | {"cpu-count": 1}}]
    policy["std"] |= {"memory-size": rng.choice((1024, 2048)), "disk-size": 10240}
    return policy


def options(rng: random.Random) -> list[str]:
    switches = ("--no-capacity-checks", "--independent-groups", "--accept-existing-errors")
    chosen = [switch for switch in switches if rng.random() < 0.3]
    more: Sequence[Sequence[str]] = ([], ["-l", "7"], ["--max-cpu", "2.5"], ["--min-disk", "0.05"])
    form = rng.choice((["--machine-readable"], [], ["-v", "-v", "-v", "-p+plist,slist"]))
    return [*chosen, *rng.choice(more), *form, "--disk-template", rng.choice(TEMPLATES)]


# What only ours says: where files are, and which nodes are in the way.
OURS = re.compile(
    "The cluster state|HTS_[A-Z]*_(OBSTACLES|UNCHECKED)="
    "|.*(not come back|nor .*other nodes?|than it has to keep|without this check .* would fit)$"
)


def in_common(result: Result) -> Result:
    out, err = (
        [line for line in text.splitlines() if not OURS.match(line)] for text in (result.out, result.err)
    )
    return replace(result, out="\n".join(out), err="\n".join(err))


# The first line after tiered allocation, on standard output or error.
STANDARD = re.compile(r"^(?=Standard \(fixed|HTS_SPEC_|Standard allocation)", re.MULTILINE)
TIER = re.compile(r"^  - +(\d+) instances of spec|(?<=\d=)(\d+)(?=[ '])", re.MULTILINE)


def tiers_in_common(result: Result, expected: Result, run: Callable[[str], Result]) -> Result:
    """Return our result with the tiers of ``expected``, Debian's, if the limit ended those too early.

    Debian's takes the instances of earlier tiers off the limit several times. ``run`` is ours with a limit.
    """

    def parts(result: Result) -> list[tuple[str, str]]:
        common = in_common(result)
        halves = (STANDARD.split(text, maxsplit=1) for text in (common.out, common.err))
        return [(first, "".join(rest)) for first, *rest in halves]

    def placed(result: Result) -> int:
        return sum(int("".join(each)) for each in TIER.findall(parts(result)[0][0]))

    if placed(result) <= placed(expected):
        return in_common(result)
    shorter = run(str(placed(expected)))
    texts = (mine + rest for (mine, _), (_, rest) in zip(parts(shorter), parts(result), strict=True))
    out, err = texts
    return replace(result, out=out, err=err)


def same(oracle: Oracle, tmp_path: Path, arguments: Sequence[str]) -> None:
    saved = {who: tmp_path / who for who in ("debian", "htoolsd")}
    expected = theirs(oracle, "hspace", ["-v", *arguments, "-S", str(saved["debian"])])
    found = ours(hspace.main, ["-v", *arguments, "-S", str(saved["htoolsd"])])
    limits = [each for each in arguments if each.startswith("-l")]
    standard = saved["htoolsd"].with_suffix(".standard")

    def run(limit: str) -> Result:
        kept = standard.read_text()
        again = ours(hspace.main, ["-v", *arguments, f"-l{limit}", "-S", str(saved["htoolsd"])])
        standard.write_text(kept)
        return again

    assert (tiers_in_common(found, expected, run) if limits else in_common(found)) == in_common(expected)
    for kind in ("tiered", "standard"):
        written = [path.with_suffix(f".{kind}") for path in saved.values()]
        contents = [path.read_text() if path.exists() else None for path in written]
        assert contents[0] == contents[1]


@pytest.mark.parametrize("seed", range(24))
def test_any_cluster(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    data = cluster(seed, shape(rng))
    data["ipolicy"] = sizes(rng)
    path = tmp_path / "cluster.data"
    path.write_text(text(data))
    chosen = options(rng)
    if "drbd" in chosen and any(each["disk_template"] != "drbd" for each in data["instances"].values()):
        # Debian's never looks at where other instances would be restarted once a mirrored one is added.
        chosen.append("--no-capacity-checks")
    same(oracle, tmp_path, ["-t", str(path), *chosen])


@pytest.mark.parametrize(
    "arguments",
    [
        "--simulate=p,4,20g,64g,16,12 --disk-template=drbd --machine-readable --tiered-alloc=20g,32g,8",
        "--simulate=p,3,100g,64g,16 --simulate=a,2,100g,32g,8 --simulate=u,2,100g,32g,8"
        " --disk-template=drbd --tiered-alloc=20g,8g,4,2 --standard-alloc=10g,1g,1",
        "--simulate=p,3,100g,64g,16,10,True --simulate=p,2,100g,32g,8,5,True --disk-template=drbd -l50"
        " --tiered-alloc=20g,8g,4,2 --standard-alloc=1g,1g,1,1",
        "--simulate=p,3,1T,64g,16 --simulate=p,2,0,0,0 --disk-template=drbd -l8",
        "--simulate=p,3,1T,64g,16 --simulate=p,2,0,0,0 --disk-template=ext -l8",
        "--simulate=p,3,1T,64g,16,0 --simulate=p,2,1T,32g,8 --disk-template=plain -l8",
        "--simulate=p,6,1T,64g,16 --disk-template=ext -l60",
        "--simulate=u,4,1T,64g,16",
        "--simulate=p,1,1T,64g,16 --disk-template=drbd",
        "--simulate=p,3,4T,64g,32 --disk-template=plain -l5",
    ],
)
def test_simulated(oracle: Oracle, tmp_path: Path, arguments: str) -> None:
    same(oracle, tmp_path, arguments.split())


@pytest.mark.parametrize("how", [[], ["--independent-groups"], ["--accept-existing-errors"]])
@pytest.mark.parametrize("name", NAMED or [None])
def test_files_that_ship_with_ganeti(
    oracle: Oracle, tmp_path: Path, name: str | None, how: list[str]
) -> None:
    if name is None:
        pytest.skip(NO_FILES)
    same(oracle, tmp_path, ["-t", str(DATA / name), "-v", "-v", "-p", *how])
