import re
from pathlib import Path

import pytest

from ganeti_htools.cli import hail
from ganeti_htools.cli.parameters import parse_options
from ganeti_htools.model.errors import UsageError
from tests import messages
from tests.clusters import Json, Shape, cluster

DATA = cluster(3, Shape(nodes=4, instances=4, fill=0.3, offline=1))


def explained(tmp_path: Path, request: Json, *options: str) -> int:
    path = tmp_path / "request"
    path.write_text(messages.encode(messages.message(DATA, request)))
    return hail.main([str(path), "--explain", *options])


@pytest.mark.parametrize(("template", "count"), [("plain", 1), ("drbd", 2)])
def test_explain_tells_of_each_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], template: str, count: int
) -> None:
    request = messages.allocate("new.example.org", template, memory=128, disks=[1024])
    assert explained(tmp_path, request, "--no-capacity-checks") == 0
    out, err = capsys.readouterr()
    title, header, *rows, last = out.splitlines()
    assert title.startswith(f"Places for new.example.org, {template}, score without it ")
    assert header.split() == ["Nodes", "Score", "Change", "By", "component,", "weighted"]
    before, places = float(title.split()[-1].rstrip(":")), {}
    for row in rows:
        nodes, score, *rest = row.split()
        if score == "offline":
            assert not rest
            continue
        places[nodes] = float(score)
        assert len(nodes.split(":")) == count
        assert float(rest[0]) == pytest.approx(float(score) - before, abs=2e-8)
        parts = [float(re.sub(r"^.*?(?=[+-]\d+\.\d+$)", "", part)) for part in rest[1:]]
        assert sum(parts) == pytest.approx(float(rest[0]), abs=1e-5)
    assert [row.split()[0].split(":")[0] for row in rows] == list(DATA["nodes"])
    assert len(rows) == len(places) + 1 == 4
    assert last == f"Chosen: {min(places, key=lambda nodes: places[nodes]).replace(':', ', ')}"
    assert not err


def test_explain_says_why_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = messages.allocate("new.example.org", memory=10**6)
    assert explained(tmp_path, request) == 0
    *_, last = lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[2:6]].count("FailMem") == 3
    assert last.startswith("No place: ")
    only = sorted(DATA["nodes"])[0]
    assert explained(tmp_path, request, f"--restrict-allocation-to={only}") == 0
    assert "not to be used" in capsys.readouterr().out


def test_explain_is_for_new_instances(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(tmp_path, messages.change_group(list(DATA["instances"])[:1])) == 1
    assert capsys.readouterr().err == "Error: --explain is for requests of type allocate only\n"


def test_explain_is_no_parameter_of_an_iallocator() -> None:
    with pytest.raises(UsageError, match=r"^--explain is for the hail program itself$"):
        parse_options(["--explain"])
