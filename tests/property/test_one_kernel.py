"""hail, hspace, hcheck and hbal give one answer to what fits and what is redundant."""

import json
import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganeti_htools.backends.text import parse
from ganeti_htools.cli import hail, hbal, hcheck, hspace
from ganeti_htools.engine.balancing.balance import rebalance
from ganeti_htools.engine.redundancy import health as redundancy_health
from ganeti_htools.model.derive import derive
from ganeti_htools.model.options import BalancingOptions
from tests.support.clusters import ALL_TEMPLATES, MIXED, MOVABLE, TAGS, TIGHT, Json, Shape, cluster, place
from tests.support.messages import allocate, encode, message
from tests.support.seeds import one_by_one
from tests.support.text_format import text

DRBD = {"drbd": 1}
WISHES = ("drbd", "drbd", "drbd", "plain", *ALL_TEMPLATES)
HEALTH = ("n1_fail", "conflict_tags", "offline_pri", "offline_nodes", "gn1_fail")


@dataclass(frozen=True)
class Wish:
    """A new instance, as hspace is told of it and as hail is asked for it."""

    template: str
    memory: int
    disk: int
    vcpus: int

    @property
    def options(self) -> list[str]:
        """For hspace. Tiered allocation, of which nothing is asked here, starts with the least size."""
        return [
            f"--disk-template={self.template}",
            f"--standard-alloc={self.disk},{self.memory},{self.vcpus},1",
            "--tiered-alloc=256,64,1,1",
        ]

    def request(self, name: str) -> Json:
        """For hail. hspace does not count the metadata of DRBD."""
        request = allocate(name, self.template, memory=self.memory, vcpus=self.vcpus, disks=[self.disk])
        return request | {"disk_space_total": self.disk}


class Desk:
    """The programs, run on a cluster in a directory of its own."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str], data: Json) -> None:
        self.directory, self.capsys, self.data = directory, capsys, data
        self.source = directory / "cluster"
        self.source.write_text(text(data), "utf-8")

    def told(self, main: Callable[[Sequence[str]], int], *argv: object, source: Path | None = None) -> Any:
        """What a program answers."""
        assert main(["-t", str(source or self.source), *map(str, argv)]) == 0
        return json.loads(self.capsys.readouterr().out)

    def checked(self, source: Path | None = None) -> Any:
        """What hcheck says."""
        return self.told(hcheck.main, "--no-simulation", "--json", source=source)

    def health(self, source: Path | None = None) -> dict[str, int]:
        """What hcheck counts in the whole cluster."""
        counts = self.checked(source)["cluster"]["initial"]
        return {what: counts[what] for what in HEALTH}

    def room(self, wish: Wish, *options: object) -> int:
        """How many of these instances hspace counts."""
        told = self.told(hspace.main, *wish.options, "--json", *options)
        return int(told["standard"]["instances"])

    def placed(self, wish: Wish, *options: object) -> Any:
        """What hail answers."""
        request = self.directory / "request"
        request.write_text(encode(message(self.data, wish.request("new"))), "utf-8")
        return self.told(hail.main, *options, request)

    def places_in_turn(self, wish: Wish, number: int) -> list[list[str]]:
        """Where hail puts so many of these instances, each with those before it there."""
        desk, places = self, []
        for each in range(number):
            places.append(desk.placed(wish)["result"])
            data = place(desk.data, wish.request(f"new-{each}"), places[-1])
            desk = Desk(self.directory, self.capsys, data)
        return places

    def score(self, group: str) -> str:
        """What hbal starts from."""
        assert hbal.main(["-t", str(self.source), "-G", group, "-l", "0"]) == 0
        found = re.search(r"^Initial score: (.*)$", self.capsys.readouterr().out, re.MULTILINE)
        assert found
        return found[1]

    def with_new(self, wish: Wish, where: Iterable[Sequence[str]]) -> Path:
        """The cluster as Ganeti describes it when new instances are there."""
        data = self.data
        for number, nodes in enumerate(where):
            data = place(data, wish.request(f"new-{number}"), nodes)
        path = self.directory / "later"
        path.write_text(text(data), "utf-8")
        return path


def new_ones(saved: Path) -> list[list[str]]:
    """The nodes of each instance that hspace placed."""
    rows = (line.split("|") for line in saved.read_text("utf-8").splitlines() if line.startswith("new-"))
    return [[node for node in row[6:8] if node] for row in rows]


def shape_of(rng: random.Random) -> Shape:
    """A small cluster. On exclusive storage hail does not look at redundancy, as Ganeti's does not."""
    groups = rng.choice((1, 1, 2, 3))
    tags = tuple(kind for kind in TAGS if rng.random() < 0.3)
    every = dict.fromkeys(ALL_TEMPLATES, 1)
    return Shape(
        nodes=groups * rng.randint(4, 5),
        instances=rng.randint(1, 10 + 10 * groups),
        groups=groups,
        templates=rng.choice((DRBD, MIXED, MOVABLE, every, {"plain": 1, "drbd": 2, "ext": 1})),
        fill=rng.choice((0.3, 0.6, TIGHT, TIGHT, 0.95)),
        offline=rng.choice((0, 0, 0, 1)) if "migration" not in tags else 0,
        drained=rng.choice((0, 0, 0, 1)) if "migration" not in tags else 0,
        down=rng.choice((0, 0.2)),
        forthcoming=rng.choice((0, 0, 0.2)),
        tags=tags,
        policies=rng.random() < 0.3,
    )


def wish_of(rng: random.Random) -> Wish:
    return Wish(
        rng.choice(WISHES),
        rng.choice((128, 1024, 2048, 4096, 8192)),
        rng.choice((1024, 10240, 50000)),
        rng.choice((1, 2, 4)),
    )


def grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """What there is more of."""
    return {what: after[what] - before[what] for what in HEALTH if after[what] > before[what]}


@pytest.mark.parametrize("seed", one_by_one(60))
def test_what_hspace_counts_hail_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    rng = random.Random(seed)
    desk, wish = Desk(tmp_path, capsys, cluster(seed, shape_of(rng))), wish_of(rng)
    room = desk.room(wish, "-l", 4, "-S", tmp_path / "filled")
    answer = desk.placed(wish)
    before = desk.health()
    if before["n1_fail"]:
        assert room == 0  # hspace does not count then, whatever would fit
    else:
        assert answer["success"] == (room > 0), answer["info"]
    if room:
        filled = new_ones(tmp_path / "filled.standard")
        assert len(filled) == room
        for where in ([answer["result"]], filled):
            assert grown(before, desk.health(desk.with_new(wish, where))) == {}
        if len(desk.data["nodegroups"]) == 1:  # hail prefers some groups, hspace does not
            assert desk.places_in_turn(wish, room) == filled


def test_both_answers_occur(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = set()
    for seed in range(12):
        rng = random.Random(seed)
        desk = Desk(tmp_path, capsys, cluster(seed, shape_of(rng)))
        answers.add(bool(desk.placed(wish_of(rng))["success"]))
    assert answers == {True, False}


@pytest.mark.parametrize("seed", one_by_one(20))
def test_one_score(tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    rng = random.Random(seed)
    desk = Desk(tmp_path, capsys, cluster(seed, shape_of(rng)))
    for group in desk.checked()["groups"]:
        assert desk.score(group["name"]) == f"{group['initial']['score']:.8f}"


@pytest.mark.parametrize("seed", one_by_one(40))
def test_balancing_spoils_nothing(seed: int) -> None:
    """But for the redundancy of the whole, which hbal does not look at; see the next test."""
    # Instances are moved off offline nodes even if other nodes then are not N+1.
    shape = replace(shape_of(random.Random(seed)), offline=0)
    state = derive(parse(text(cluster(seed, shape)), "generated"))
    for group in redundancy_health.groups(state):
        scope = state.group == group
        after, _ = rebalance(state, scope, BalancingOptions())
        health = [
            asdict(redundancy_health.health(each, scope, capacity=False)) | {"gn1_fail": 0}
            for each in (state, after)
        ]
        assert grown(*health) == {}


@pytest.mark.parametrize("seed", one_by_one(40))
def test_balancing_leaves_it_redundant(seed: int) -> None:
    rng = random.Random(seed)
    # As Ganeti's, hbal moves mirrors to where instances cannot migrate, and does not look at where others
    # than mirrored instances would be restarted.
    tags = tuple(kind for kind in TAGS if kind != "migration" and rng.random() < 0.3)
    shape = replace(shape_of(rng), templates=DRBD, groups=1, offline=0, policies=False, tags=tags)
    state = derive(parse(text(cluster(seed, shape)), "generated"))
    scope = np.ones(len(state.group), np.bool_)
    after, _ = rebalance(state, scope, BalancingOptions())
    health = [asdict(redundancy_health.health(each, scope)) for each in (state, after)]
    assert grown(*health) == {}
