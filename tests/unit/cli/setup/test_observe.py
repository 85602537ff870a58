"""The facts of setup: what other nodes answer, and Ganeti's configuration."""

import json
from pathlib import Path

import pytest

from ganeti_htools.cli.setup import observe
from ganeti_htools.cli.setup.steps import OtherCandidate
from ganeti_htools.model.errors import HtoolsError

LINE = "------------------------------------------------"


def document(**states: str) -> str:
    return json.dumps(
        {"node": "x", "steps": [{"name": name, "state": state} for name, state in states.items()]}
    )


def output(**answers: tuple[str, int]) -> str:
    """What ``gnt-cluster command`` prints."""
    return "".join(
        f"{LINE}\nnode: {node}\n{said}\nreturn code = {status}\n" for node, (said, status) in answers.items()
    )


def test_reads_what_each_candidate_lacks() -> None:
    answers = {
        "a": (document(executable="done", boot="to do", daemon="by hand", default="not here") + "\n", 0),
        "b": (document(executable="done") + "\n", 0),
        "c": ("sh: 1: /usr/bin/htoolsctl: not found\n", 127),
        "d": ("", 255),
        "e": ("htoolsctl: error: argument COMMAND: invalid choice: 'setup'\nmore\n", 2),
    }
    assert observe.read_candidates(frozenset("abcdef"), output(**answers)) == {
        "a": OtherCandidate(("boot", "daemon")),
        "b": OtherCandidate(),
        "c": OtherCandidate(("executable",)),
        "d": OtherCandidate(unknown="no answer by ssh"),
        "e": OtherCandidate(unknown="htoolsctl: error: argument COMMAND: invalid choice: 'setup' more"),
        "f": OtherCandidate(unknown="Ganeti does not ask it; is it offline?"),
    }


@pytest.mark.parametrize("said", ["[]", "3", '{"steps": 3}', '{"steps": [3]}', '{"steps": [{}]}'])
def test_other_answers_are_unknown(said: str) -> None:
    assert observe.read_candidates(frozenset("a"), output(a=(said, 0))) == {"a": OtherCandidate(unknown=said)}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ganeti's directory of node2, a master candidate."""
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path))
    monkeypatch.setenv("GANETI_HOSTNAME", "node2")
    monkeypatch.setattr(observe, "RECORD", str(tmp_path / "record"))
    monkeypatch.setattr(observe, "_unit", lambda: None)
    directory = tmp_path / "var/lib/ganeti"
    directory.mkdir(parents=True)
    (directory / "ssconf_master_node").write_text("node1\n")
    (directory / "ssconf_master_candidates").write_text("node1\nnode2\n")
    return directory


def test_knows_the_cluster_from_ganeti_s_configuration(node: Path) -> None:
    cluster = {
        "default_iallocator": "htoolsd",
        "tags": ["htools:setup:iallocator:hail"],
        "enabled_disk_templates": ["drbd"],
        "ipolicy": {"std": {"disk-size": 1}},
    }
    instances = {"uuid": {"os": "debian"}}
    (node / "config.data").write_text(json.dumps({"cluster": cluster, "instances": instances}))
    (node.parents[2] / "record").write_text("boot\ndaemon\n")
    facts = observe.observer(str(node / "none"), asks_nodes=True, submits=True)()
    assert (facts.node, facts.master, facts.others, facts.status) == ("node2", "node1", {}, None)
    assert facts.settings is not None
    assert (facts.settings.iallocator, facts.settings.system) == ("htoolsd", "debian")
    assert facts.made == {"boot", "daemon", "default"}


def test_node_may_be_no_candidate(node: Path) -> None:
    assert observe.observer(str(node / "none"), asks_nodes=True, submits=True)().settings is None


def test_master_without_configuration_is_an_error(node: Path) -> None:
    (node / "ssconf_master_node").write_text("node2\n")
    with pytest.raises(
        HtoolsError, match=r"config\.data: expected the configuration of Ganeti on the master"
    ):
        observe.observer(str(node / "none"), asks_nodes=True, submits=True)()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"cluster": 1}', '{"cluster": {"ipolicy": 1}}'])
def test_damaged_configuration_is_an_error(node: Path, content: str) -> None:
    (node / "config.data").write_text(content)
    with pytest.raises(HtoolsError, match=r"config\.data: expected the configuration of Ganeti"):
        observe.observer(str(node / "none"), asks_nodes=True, submits=True)()


def test_node_without_cluster_is_an_error(node: Path) -> None:
    (node / "ssconf_master_node").unlink()
    with pytest.raises(HtoolsError, match="no cluster; expected a node of one"):
        observe.observer(str(node / "none"), asks_nodes=True, submits=True)()


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (("/none", "x"), "/none: No such file or directory"),
        (("sh", "-c", "echo a >&2; echo b >&2; false"), "sh -c: a b"),
        (("sh", "-c", "exit 3"), "sh -c: exit status 3"),
    ],
)
def test_errors_of_commands_are_one_line(command: tuple[str, ...], error: str) -> None:
    with pytest.raises(HtoolsError, match=f"^{error}$"):
        observe.run(command)
