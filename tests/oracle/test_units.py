"""Storage units that no instance uses change nothing: decisions are Debian's on a cluster without them.

In a score each of U units counts 1/U of what disk space counts (Ganeti's design "multi-storage htools").
Debian's tools, which know one figure, give it that weight on nodes with U times the disk, of which as much is
free. Powers of two and other units that are used alike keep all sums the same to the last bit.
"""

import json
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.cli import hail, hbal, hcheck, hroller, hspace, hsqueeze
from ganeti_htools.engine.squeezing import power_down
from tests.oracle.programs import ours, squeeze_commands, theirs
from tests.oracle.test_hail import comparable
from tests.support.cases import Case, case
from tests.support.clusters import MIXED, Json, Shape, cluster
from tests.support.messages import encode, message
from tests.support.oracle import Oracle
from tests.support.seeds import one_by_one
from tests.support.text_format import text

pytestmark = pytest.mark.oracle

OTHERS = (("lvm-vg", "ssdvg"), ("drbd8", "ssdvg"), ("lvm-vg", "hddvg"))
POOLS = (("rados", "fast"), ("ext", "san"))


def unit(kind: str, key: str, free: int, total: int) -> Json:
    return {"sunit": [kind, key, []], "free": free, "total": total}


def on_no_directory(described: Json) -> Json:
    """An instance or request; files are on shared storage, since no node has a unit for others."""
    return described | ({"disk_template": "sharedfile"} if described.get("disk_template") == "file" else {})


def with_others(rng: random.Random, data: Json) -> tuple[Json, Json]:
    """The cluster with units and pools besides the one in use; and as Debian's tools are to see it."""
    data = data | {"instances": {name: on_no_directory(row) for name, row in data["instances"].items()}}
    others = OTHERS[: rng.choice((0, 1, 3))]
    online = [name for name, node in data["nodes"].items() if not node["offline"]]
    silent = set(rng.sample(online, rng.choice((0, len(online) // 2))))
    telling = [name for name in online if name not in silent]
    nodes, weighed = dict(data["nodes"]), dict(data["nodes"])
    for name in online:
        node = nodes[name]
        storage = [unit("lvm-vg", "xenvg", node["free_disk"], node["total_disk"])]
        for kind, key in others:
            if name == telling[0] or rng.random() < 0.7:
                free = rng.choice((1, 4096, 100_000))
                storage.append(unit(kind, key, free, 2 * free))
        # Nodes that do not list a pool that others list do not see it.
        storage += [unit(*pool, 1 << 30, 1 << 30) for pool in POOLS if not silent]
        if name not in silent:
            nodes[name] = node | {"storage": rng.sample(storage, len(storage))}
            nodes[name]["storage"].sort(key=lambda each: each["sunit"][1] != "xenvg")
        weighed[name] = node | {"total_disk": node["total_disk"] * (1 + len(others))}
    return data | {"nodes": nodes}, data | {"nodes": weighed}


@pytest.mark.parametrize("seed", one_by_one(100))
def test_hail(oracle: Oracle, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = case(seed)
    data, weighed = with_others(random.Random(seed), asked.data)
    wanted = on_no_directory(asked.request)
    if "instances" in wanted and asked.request["type"] == "multi-allocate":
        wanted = wanted | {"instances": list(map(on_no_directory, wanted["instances"]))}
    answers: list[Any] = []
    for name, each in (("theirs", weighed), ("ours", data)):
        request = tmp_path / name
        request.write_text(encode(message(each, wanted)))
        if name == "theirs":
            told = subprocess.run(
                [oracle.hail, request, *asked.options], capture_output=True, check=True
            ).stdout
        else:
            assert hail.main([str(request), *asked.options]) == 0
            told = capsys.readouterr().out.encode()
        answers.append(comparable(json.loads(told)))
    assert answers[1] == answers[0]


def files(rng: random.Random, data: Json, tmp_path: Path) -> list[str]:
    """Both clusters as files, Debian's first."""
    data, weighed = with_others(rng, data)
    for name, each in (("theirs", weighed), ("ours", data)):
        (tmp_path / name).write_text(text(each), "utf-8")
    return [str(tmp_path / "theirs"), str(tmp_path / "ours")]


STEP = re.compile(r"^ *\d+\. .*| *echo jobset .*|.*gnt-instance.*", re.MULTILINE)


@pytest.mark.parametrize("seed", one_by_one(40))
def test_hbal(oracle: Oracle, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    asked: Case = case(rng.randrange(1 << 30))
    group = rng.choice(list(asked.data["nodegroups"]))
    words = [word for word in ("--no-disk-moves", "--evac-mode") if rng.random() < 0.15]
    paths = files(rng, asked.data, tmp_path)
    expected, found = (["-t", path, "-G", group, "-C", *words] for path in paths)
    debian, htoolsd = theirs(oracle, "hbal", expected), ours(hbal.main, found)
    assert htoolsd.status == debian.status
    assert STEP.findall(htoolsd.out) == STEP.findall(debian.out)


COUNTS = re.compile(
    r"^HTS_(?:TRL_INST_CNT|TRL_SPEC_MAP|TSPEC|ALLOC_INSTANCES|ALLOC_FAIL_REASON)=.*", re.MULTILINE
)


@pytest.mark.parametrize("seed", one_by_one(30))
def test_hspace(oracle: Oracle, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    shape = Shape(
        nodes=rng.randint(2, 5),
        instances=rng.randint(0, 16),
        templates=rng.choice((MIXED, {"drbd": 1}, {"plain": 1, "ext": 1})),
        fill=rng.choice((0.2, 0.4, 0.6, 0.85)),
        offline=rng.choice((0, 0, 1)),
        exclusive_storage=rng.random() < 0.2,
    )
    paths = files(rng, cluster(seed, shape), tmp_path)
    options = [
        "--machine-readable",
        "--no-capacity-checks",
        f"--disk-template={rng.choice(('drbd', 'drbd', 'plain'))}",
        "-l",
        "7",
    ]
    expected, found = (["-t", path, *options] for path in paths)
    debian, htoolsd = theirs(oracle, "hspace", expected), ours(hspace.main, found)
    assert htoolsd.status == debian.status
    assert COUNTS.findall(htoolsd.out) == COUNTS.findall(debian.out)


@pytest.mark.parametrize("seed", range(20))
def test_hroller(oracle: Oracle, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    shape = Shape(nodes=rng.randint(3, 6), instances=rng.randint(0, 20), fill=rng.choice((0.3, 0.6, 0.85)))
    paths = files(rng, cluster(seed, shape), tmp_path)
    switches = ("--ignore-non-redundant", "--full-evacuation", "--print-moves", "--offline-maintenance")
    words = ["-f", *(switch for switch in switches if rng.random() < 0.4)]
    debian = theirs(oracle, "hroller", [*words, "-t", paths[0]])
    htoolsd = ours(hroller.main, [*words, "-t", paths[1]])
    assert (htoolsd.status, htoolsd.out) == (debian.status, debian.out)


@pytest.mark.parametrize("seed", range(20))
def test_hsqueeze(oracle: Oracle, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Which theirs does not look for.
    monkeypatch.setattr(power_down, "better_set", lambda _group, found, _wishes: found)
    rng = random.Random(seed)
    templates = rng.choice(({"ext": 6, "rbd": 1}, {"ext": 8, "drbd": 1, "plain": 1}))
    shape = Shape(nodes=rng.randint(3, 6), instances=rng.randint(0, 20), templates=templates)
    paths = files(rng, cluster(seed, shape), tmp_path)
    # With these nothing binds that Debian's does not know.
    options = ["-C", "--minimal-resources=0", "--target-resources=0"]
    debian = theirs(oracle, "hsqueeze", [*options, "-t", paths[0]])
    htoolsd = ours(hsqueeze.main, [*options, "-t", paths[1]])
    assert (htoolsd.status, squeeze_commands(htoolsd.out)) == (debian.status, squeeze_commands(debian.out))


COUNTED = re.compile(r"^HCHECK_(?!.*SCORE).*", re.MULTILINE)


@pytest.mark.parametrize("seed", range(20))
def test_hcheck(oracle: Oracle, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    paths = files(rng, case(rng.randrange(1 << 30)).data, tmp_path)
    words = ["--machine-readable", *(["--no-simulation"] if rng.random() < 0.3 else [])]
    debian = theirs(oracle, "hcheck", [*words, "-t", paths[0]])
    htoolsd = ours(hcheck.main, [*words, "-t", paths[1]])
    assert COUNTED.findall(htoolsd.out) == COUNTED.findall(debian.out)
    assert htoolsd.status == debian.status
