"""Decisions recorded by the daemon, made again and explained without it."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.cli.htoolsctl import main
from ganeti_htools.recording.decision import read_decision
from ganeti_htools.recording.files import contents
from tests.daemon.planning import call, following
from tests.support import messages
from tests.support.clusters import Shape, cluster
from tests.support.oracle import Oracle
from tests.support.programs import wait_until
from tests.support.rows import rows
from tests.support.schemas import complaint

CONFIG = 'config_seconds = 0.1\nstorage = "always"\nclaims = "always"\n[recording]\nmib = 4\n'
SHAPE = Shape(nodes=6, instances=20, groups=2, templates={"drbd": 2, "plain": 1}, fill=0.3, down=0)


def test_recorded_decisions_are_made_again_to_the_byte(
    oracle: Oracle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All types of requests, with claims of those before and storage units of nodes."""
    data = cluster(4, SHAPE)
    names = {row["disk_template"]: name for name, row in data["instances"].items()}
    drbd = names["drbd"]
    asked = [
        messages.allocate("one.example.org"),
        messages.multi_allocate([messages.allocate("two.example.org"), messages.allocate("three.org")]),
        messages.allocate("four.example.org", "plain"),
        messages.relocate(data, drbd),
        messages.node_evacuate(data, data["instances"][drbd]["nodes"][0], "primary-only"),
        messages.change_group([drbd]),
        messages.allocate_secondary(names["plain"]),
    ]
    with following(tmp_path, rows(data), config=CONFIG) as (daemon, _):
        wait_until(lambda: daemon.status()["cluster"]["storage"]["complete"])
        for each in asked:
            text = messages.encode(messages.message(data, each))
            assert call(daemon, "decide", request=text, claim=True)["exit_status"] == 0
        history = call(daemon, "history")
        daemon.stop()  # which writes the last ones
    files = list((daemon.state / "recording").iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert sum(path.stat().st_size for path in files) < 40_000

    recorded = [*map(read_decision, contents(daemon.state / "recording", lambda _head: True, print))]
    assert [bool(each.promises) for each in recorded] == [False, *[True] * (len(asked) - 1)]
    assert all(node.storage for each in recorded if each.known for node in each.known.cluster.nodes)

    config = tmp_path / "htoolsd.toml"
    config.write_text(f'state_dir = "{daemon.state}"\n')

    def told(*words: object) -> Any:
        assert main([*map(str, words), "--config", str(config)]) == 0
        return capsys.readouterr().out

    again = json.loads(told("replay", "--json"))
    assert (again["exact"], again["compared"], again["differences"]) == (len(asked), len(asked), [])
    assert complaint("htoolsctl-replay", again) is None
    assert ", 7 answers the same to the byte\n" in told("replay")
    ids = [each["id"] for each in history]
    one = json.loads(told("replay", "--id", ids[1], "--json"))
    assert (one["verdict"], one["exact"], one["request"]) == ("same", True, "multi-allocate")
    assert complaint("htoolsctl-replay", one) is None
    why = told("why", "--decision", ids[0])
    assert f"Chosen: {', '.join(history[0]['places'][0])}" in why
    (places,) = json.loads(told("why", "--decision", ids[0], "--json"))
    assert places["chosen"] == history[0]["places"][0]
    assert main(["replay", "--json", "--with", str(oracle.hail), "--config", str(config)]) in (0, 3)
    beside = json.loads(capsys.readouterr().out)
    assert (beside["exact"], beside["compared"]) == (None, len(asked))
    assert complaint("htoolsctl-replay", beside) is None
    for words, error in (
        (["replay", "--since=2100-01-01"], "no decision is recorded since then"),
        (["why", "--decision", "cafe"], "cafe: neither recorded nor kept by the witness"),
    ):
        assert main([*words, "--config", str(config)]) == 1
        assert error in capsys.readouterr().err
