"""Clusters and requests without names: nothing is left of the names, and all is decided as before."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ganeti_htools.anonymity.cluster import rename_cluster, substitutes_of
from ganeti_htools.anonymity.documents import DocumentRenamer
from ganeti_htools.anonymity.names import Collector, NameKind, Substitutes
from ganeti_htools.anonymity.tags import TagRenamer
from ganeti_htools.anonymity.text import FreeText, words
from ganeti_htools.backends.text import dump, parse
from ganeti_htools.deciding.decision import respond
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.planning.plan import Proposal
from ganeti_htools.planning.tools import TOOLS
from tests.support import cases
from tests.support.placement_rules import with_rules
from tests.support.rarities import Rarely, rare
from tests.support.seeds import few
from tests.support.storage_units import case_with_units
from tests.support.super_clusters import super_cluster

ROOT = Path(__file__).parents[2]


@cache
def own_words() -> frozenset[str]:
    """The words of our programs."""
    return words(path.read_text("utf-8") for path in (ROOT / "ganeti_htools").rglob("*.py"))


MARK = "Žq"  # in half of the planted names
# Words of formats, beginnings of others, other letters, and what a pattern could take for something else.
PLANTED = (
    *("node", "instance", "running", "group", "default", "Y", "N", "offline", "true", "12", "1.5", "tag-1"),
    *(
        "mail",
        "mail1",
        "mail1.kontor.example",
        "kontor.example",
        "m",
        "node-01",
        "htools",
        "über",
        "日本",
        "e\u0301",
    ),
    *("10.0.0.1", "aa:00:00:12:34:56"[:2], "FailMem", "web_1", "a.b-c", "word-1"),
)


def planted(rng: Random, cluster: Cluster) -> Cluster:
    """The cluster with other names, in another order."""
    new: dict[tuple[NameKind, str], str] = {}

    def rename(kind: NameKind, name: str) -> str:
        if kind in (NameKind.CLASS, NameKind.DISK_CLASS) or not name:
            return name
        taken = {each for (other, _), each in new.items() if other is kind}
        if (kind, name) not in new:
            word = rng.choice(PLANTED)
            marked = f"{word}{MARK}{rng.randrange(1 << 30)}"
            # Names of disk classes are made of those of units, which must differ in letters and digits.
            new[kind, name] = marked if word in taken or kind is NameKind.UNIT or rng.random() < 0.5 else word
        return new[kind, name]

    return rename_cluster(cluster, rename)


def clusters(seeds: range) -> Iterator[Cluster]:
    for seed in seeds:
        rng = Random(seed)
        found = rare(seed, Rarely(groups=2, nodes=6)) if seed % 4 == 0 else super_cluster(rng)
        yield planted(rng, with_rules(rng, found))


def outcome(cluster: Cluster, tool: str) -> Proposal | str:
    maker: Any = TOOLS[tool]
    try:
        found: Proposal = maker.propose(cluster, maker.options(), lambda _text: None)
    except HtoolsError as error:
        return type(error).__name__
    return found


def moves(found: Proposal, names: Substitutes | None = None) -> list[Any]:
    def row(kind: NameKind, name: str) -> str:
        return names(kind, name) if names else name

    return [
        [
            (
                row(NameKind.INSTANCE, job.step.instance),
                job.step.title,
                [row(NameKind.NODE, node) for node in job.step.now],
            )
            for job in jobs
            if job.step
        ]
        for jobs in found.jobs
    ]


@pytest.mark.parametrize("seeds", few(range(10), 500))
def test_plans_and_scores_stay(seeds: range) -> None:
    for cluster in clusters(seeds):
        names = substitutes_of(cluster)
        other = rename_cluster(cluster, names)
        for tool in ("hbal", "hregroup", "hsqueeze"):
            before, after = outcome(cluster, tool), outcome(other, tool)
            if isinstance(before, str) or isinstance(after, str):
                assert before == after
            else:
                assert moves(before, names) == moves(after)
                assert repr(before.score) == repr(after.score)
                assert before.cost["disk_mib"] == after.cost["disk_mib"]


@pytest.mark.parametrize("seeds", few(range(10), 500))
def test_files_have_none_of_the_names(seeds: range) -> None:
    for cluster in clusters(seeds):
        names = substitutes_of(cluster)
        other = rename_cluster(cluster, names)
        assert MARK not in repr(other)
        saved = parse(dump(other), "saved")
        for rows in ("groups", "nodes", "instances"):
            before, after = ({row.name for row in getattr(each, rows)} for each in (cluster, saved))
            assert len(after) == len(before)
            assert not after & before
        assert rename_cluster(other, substitutes_of(other)) != other


@pytest.mark.parametrize("seeds", few(range(20), 500))
def test_requests_are_answered_the_same(seeds: range) -> None:
    for seed in seeds:
        case = cases.case(seed) if seed % 2 else case_with_units(seed)
        request = json.loads(case.text)
        collector = Collector()
        tags = request["cluster_tags"]
        DocumentRenamer(collector, TagRenamer(tags, collector), str, own_words())(request)
        names = Substitutes(collector.names)
        text = FreeText(names, own_words())
        other = DocumentRenamer(names, TagRenamer(tags, names), text, own_words())(request)
        assert "example.org" not in json.dumps(other)
        options = PlacementOptions(capacity=seed % 3 > 0)
        before, after = (respond(json.dumps(each).encode(), options).summary for each in (request, other))
        assert [[names(NameKind.NODE, node) for node in place] for place in before.nodes] == list(after.nodes)
        assert repr(before.score) == repr(after.score)
        codes = [re.findall(r"Fail\w+: \d+", each.refusal or "") for each in (before, after)]
        assert codes[0] == codes[1]
