"""Rare input of which docs/differences.md has a row: Debian's tools and ours do what is written there."""

import json
from pathlib import Path

import pytest

from ganeti_htools.cli import hail, hbal, hcheck, hspace, hsqueeze
from ganeti_htools.commandline.programs import HBAL
from ganeti_htools.commandline.reading import Reply, read
from tests.oracle.programs import Result, ours, theirs, write
from tests.support import messages
from tests.support.clusters import Json, Shape, cluster, uuid_of
from tests.support.oracle import Oracle
from tests.support.rows import generated

pytestmark = pytest.mark.oracle

SMALL = generated(1, Shape(nodes=4, instances=6))


def answers(oracle: Oracle, tmp_path: Path, data: Json, request: Json) -> tuple[Result, Result]:
    """Theirs, then ours."""
    path = tmp_path / "request"
    path.write_text(messages.encode(messages.message(data, request)))
    return theirs(oracle, "hail", [str(path)]), ours(hail.main, [str(path)])


def test_hail_saves_all_groups(oracle: Oracle, tmp_path: Path) -> None:
    data = cluster(1, Shape(nodes=4, instances=0, groups=2))
    request = messages.allocate("new", group_name="group1")
    (tmp_path / "request").write_text(messages.encode(messages.message(data, request)))
    arguments = [str(tmp_path / "request"), "-S"]
    assert theirs(oracle, "hail", [*arguments, str(tmp_path / "theirs")]).status == 0
    assert ours(hail.main, [*arguments, str(tmp_path / "ours")]).status == 0
    found, expected = ((tmp_path / f"{who}.post-ialloc").read_text() for who in ("ours", "theirs"))
    assert found.count("\nnode") == 4
    assert expected.count("\nnode") == 2
    assert set(expected.splitlines()) < set(found.splitlines())


def test_change_of_group_judges_redundancy_by_the_new_node(oracle: Oracle, tmp_path: Path) -> None:
    data = cluster(1, Shape(nodes=4, instances=1, groups=2, templates={"ext": 1}))
    data["cluster_tags"] = ["htools:migration:power"]
    ((name, instance),) = data["instances"].items()
    here = data["nodes"][instance["nodes"][0]]["group"]
    there = [node for node in data["nodes"].values() if node["group"] != here]
    for node in data["nodes"].values():
        node["tags"] = ["power:a" if node is there[0] else "power:b"]
    request = messages.change_group([name], [there[0]["group"]])
    expected, found = answers(oracle, tmp_path, data, request)
    assert "0 instances failed to move" in expected.out
    assert "FailN1: 2" in found.out
    request = messages.allocate("new", "ext", group_name=data["nodegroups"][there[0]["group"]]["name"])
    expected, found = answers(oracle, tmp_path, data, request)
    assert "FailN1: 2" in expected.out
    assert "FailN1: 2" in found.out


@pytest.mark.parametrize("value", ["0x10", "0o7", "(5)", "NaN", "Infinity"])
def test_options_take_decimal_numbers_only(oracle: Oracle, tmp_path: Path, value: str) -> None:
    arguments = [f"--max-cpu={value}", "-t", write(tmp_path, SMALL)]
    assert theirs(oracle, "hbal", arguments).status == 0
    reply = read(HBAL, arguments)
    assert isinstance(reply, Reply)
    assert f"--max-cpu: cannot parse string '{value}'" in reply.text


@pytest.mark.parametrize("option", ["--static-kvm-node-memory=1g", "--static-kvm-node-memory=1 "])
def test_memory_of_nodes_is_a_size(oracle: Oracle, tmp_path: Path, option: str) -> None:
    arguments = [option, "-t", write(tmp_path, SMALL)]
    assert "leftover characters" in theirs(oracle, "hbal", arguments).err
    assert ours(hbal.main, arguments).status == 0


def test_an_empty_choice_is_yes(oracle: Oracle, tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    assert "Invalid choice ''" in theirs(oracle, "hcheck", ["--machine-readable=", "-t", path]).err
    expected = theirs(oracle, "hcheck", ["--machine-readable", "-t", path])
    assert ours(hcheck.main, ["--machine-readable=", "-t", path]) == expected


def test_an_empty_list_is_no_text(oracle: Oracle, tmp_path: Path) -> None:
    data, request = cluster(1, Shape(nodes=4, instances=0)), messages.allocate("new")
    request["nics"][0]["bridge"] = []
    expected, found = answers(oracle, tmp_path, data, request)
    assert json.loads(expected.out)["success"]
    assert "key 'bridge': Unable to read String, expected a string, got []" in found.err


def test_hspace_prints_as_much_before_it_fails_to_save(oracle: Oracle, tmp_path: Path) -> None:
    arguments = ["-t", write(tmp_path, SMALL), "--disk-template=plain", "-S", str(tmp_path / "none/saved")]
    expected, found = theirs(oracle, "hspace", arguments), ours(hspace.main, arguments)
    assert expected.out.endswith("using disk template 'plain'.\n")
    assert (found.status, found.out) == (expected.status, expected.out)


def test_an_instance_on_an_offline_node_keeps_only_its_group_up(oracle: Oracle, tmp_path: Path) -> None:
    source = tmp_path / "cluster.data"
    groups = "".join(f"g{number}|{uuid_of(f'g{number}')}|preferred||\n" for number in (1, 2))
    nodes = "".join(
        f"n{number}|32768|1024|31744|512000|512000|8|{role}|{uuid_of(f'g{1 + number // 3}')}|1\n"
        for number, role in enumerate("MNNYN")
    )
    source.write_text(f"{groups}\n{nodes}\ni1|1024|10240|1|running|Y|n3||plain|\n\n")
    arguments = ["--target-resources=0", "--minimal-resources=0", "-t", str(source)]
    assert theirs(oracle, "hsqueeze", arguments).out == "'No action'\n"
    assert ours(hsqueeze.main, arguments).out == "'Nodes to offline'\nn1\nn2\n"
