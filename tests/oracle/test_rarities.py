"""Where spindles are not told, or online nodes report nothing, we do what Debian's tools do.

Nearly all of the seeds are of clusters with which something else was done once.
"""

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ganeti_htools.cli import hail, hbal, hcheck, hsqueeze
from tests.oracle.programs import Result, ours, squeeze_commands, theirs, write
from tests.oracle.test_hail import comparable
from tests.support.cases import TYPES, Case, case
from tests.support.oracle import Oracle
from tests.support.rarities import Rarely, rare, with_rarities
from tests.support.rows import rows

pytestmark = pytest.mark.oracle

EXT = {"ext": 1}
KINDS = {
    "shared": Rarely(templates=EXT, vague=0.7),
    "few": Rarely(templates=EXT, vague=0.8, nodes=3, instances=4),
    "exclusive": Rarely(),
    "mixed": Rarely(exclusive=0.5),
    "tight": Rarely(exclusive=0.5, room=1.3),
    "forthcoming": Rarely(forthcoming=0.3),
    "offline": Rarely(exclusive=0.5, forthcoming=0.2, offline=0.2),
    "groups": Rarely(exclusive=0.5, groups=2, nodes=6, forthcoming=0.2),
    "many": Rarely(exclusive=0.7, nodes=18, instances=50, forthcoming=0.1),
    "nothing": Rarely(exclusive=0.3, no_spindles=0.15, no_cpus=0.15, no_memory=0.15, groups=2, nodes=6),
    "shared-nothing": Rarely(
        exclusive=0, no_spindles=0.15, no_cpus=0.15, templates={"ext": 1, "diskless": 1}
    ),
}
SEEDS: dict[str, dict[str, tuple[int, ...]]] = {
    "hbal": {
        "shared": (8, 23, 31),
        "few": (7, 22, 30),
        "mixed": (14,),
        "forthcoming": (0, 2),
        "offline": (3, 4),
        "groups": (1,),
        "many": (1, 2),
        "nothing": (30, 32),
    },
    "hcheck": {
        "exclusive": (27,),
        "tight": (13, 25),
        "forthcoming": (8,),
        "groups": (10, 18),
        "many": (12,),
    },
    "hsqueeze": {"forthcoming": (2,), "many": (8,), "shared-nothing": (4, 5)},
}
MAIN: dict[str, Callable[[Sequence[str]], int]] = {
    "hbal": hbal.main,
    "hcheck": hcheck.main,
    "hsqueeze": hsqueeze.main,
}
OPTIONS = {
    "hbal": ["-C", "-p+plist,slist", "-v", "-v", "-v"],
    "hcheck": ["--machine-readable"],
    "hsqueeze": ["-v", "-C", "--minimal-resources=0", "--target-resources=8"],
}


def told(result: Result) -> Result:
    """The part of a report that upstream prints as well."""
    out = re.sub(r"^(Loaded cluster ipolicy|Cost): .*\n", "", result.out, flags=re.MULTILINE)
    more = r"^(Left on nodes that are offline or drained|no node can be spared):\n(  .*\n)+"
    return replace(result, out=out, err=re.sub(more, "", result.err, flags=re.MULTILINE))


@pytest.mark.parametrize(
    ("tool", "kind", "seed"),
    [(tool, kind, seed) for tool, kinds in SEEDS.items() for kind, seeds in kinds.items() for seed in seeds],
)
def test_tools(oracle: Oracle, tmp_path: Path, tool: str, kind: str, seed: int) -> None:
    described = rare(seed, KINDS[kind])
    group = ["-G", random.Random(seed).choice(described.groups).uuid] if tool == "hbal" else []
    arguments = ["-t", write(tmp_path, described), *group, *OPTIONS[tool]]
    found, expected = told(ours(MAIN[tool], arguments)), told(theirs(oracle, tool, arguments))
    if tool == "hsqueeze":
        assert squeeze_commands(found.out) == squeeze_commands(expected.out)
        found, expected = replace(found, out=""), replace(expected, out="")
    assert found == expected


REQUESTS = (
    ("allocate", (0, 3, 20, 27)),
    ("multi-allocate", (3, 10)),
    ("allocate-secondary", (6, 11, 22, 27)),
    ("relocate", (2, 4, 24)),
    ("node-evacuate", (2, 4, 22, 37)),
    ("change-group", (17,)),
)
assert {kind for kind, _ in REQUESTS} == set(TYPES)


@pytest.mark.parametrize(("zero", "spindles"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind, seeds in REQUESTS for seed in seeds])
def test_hail(oracle: Oracle, tmp_path: Path, kind: str, seed: int, zero: bool, spindles: bool) -> None:
    asked = case(seed, kind)
    asked = Case(with_rarities(seed, asked.data, zero, spindles), asked.request, asked.options)
    (tmp_path / "request").write_text(asked.text)
    arguments = [str(tmp_path / "request"), *asked.options]
    expected, found = theirs(oracle, "hail", arguments), ours(hail.main, arguments)
    assert comparable(json.loads(found.out)) == comparable(json.loads(expected.out))


@pytest.mark.parametrize("seed", range(12))
def test_hbal_with_tags(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    data = with_rarities(seed, case(seed).data, zero=False, spindles=True)
    described = rows(data)
    arguments = ["-t", write(tmp_path, described), "-G", described.groups[0].uuid, "-C", "-p+plist,slist"]
    assert told(ours(hbal.main, arguments)) == told(theirs(oracle, "hbal", arguments))
