from pathlib import Path

import pytest

from ganeti_htools.backends import text
from ganeti_htools.backends.iallocator import read
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.ignored_tags import KINDS, without_ignored
from ganeti_htools.model.request import new_instances
from ganeti_htools.sources.source import Source
from ganeti_htools.sources.source import read as read_source
from tests.support import messages, text_format
from tests.support.clusters import Shape
from tests.support.clusters import cluster as generated

EVERY = tuple(f"htools:{kind}" if kind in ("fixed", "pinned") else f"htools:{kind}:x" for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_cluster_tag_switches_one_kind_off(kind: str) -> None:
    row = Instance("a", 1, 1, (), 1, tags=("svc:a", *EVERY))
    (found,) = without_ignored(Cluster(instances=(row,), tags=(f"htools:ignore:{kind}",))).instances
    assert {*row.tags} - {*found.tags} == {tag for tag in EVERY if tag.split(":")[1] == kind}


def test_cluster_without_such_tags_stays_the_same_object() -> None:
    cluster = Cluster(instances=(Instance("a", 1, 1, (), 1, tags=EVERY),))
    assert without_ignored(cluster) is cluster


DATA = {**generated(1, Shape(nodes=3, instances=4)), "cluster_tags": ["htools:ignore:apart"]}
ROWS = {name: {**row, "tags": ["htools:apart:x"]} for name, row in DATA["instances"].items()}


def test_request_and_its_new_instance_lose_ignored_tags() -> None:
    new = messages.allocate("new", tags=["htools:apart:x", "htools:on:y"])
    message = read(messages.encode(messages.message({**DATA, "instances": ROWS}, new)).encode())
    assert [row.tags for row in new_instances(message.request)] == [("htools:on:y",)]
    assert {row.tags for row in message.cluster.instances} == {()}


def test_source_loses_ignored_tags(tmp_path: Path) -> None:
    (file := tmp_path / "cluster.data").write_text(text_format.text({**DATA, "instances": ROWS}))
    assert {row.tags for row in text.parse(file.read_text(), "").instances} == {("htools:apart:x",)}
    assert {row.tags for row in read_source(Source(text=str(file)), print).cluster.instances} == {()}
