"""What policies remember, on disk."""

import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from ganeti_htools.model.errors import HtoolsError
from htoolsd.config.policies import PolicySettings
from htoolsd.policies.memory import (
    Expense,
    Failures,
    PolicyMemories,
    PolicyMemory,
    Rounds,
    content_of,
    read,
    resting,
)


def test_reads_what_it_wrote(tmp_path: Path) -> None:
    one = Rounds(1, False, 5.5, 0.0, "drift", "node1,node2", {"node1": 1})
    rounds = {"power up": {"rack1": one}, "power down": {"rack1": Rounds(3, True)}}
    failures, dismissed = {"rack1": Failures(1, "no", 7.5)}, {"rack2": 9.5}
    memory = PolicyMemory([Expense(1.5, 2, 3)], failures, rounds, dismissed)
    known = PolicyMemories({"squeeze": memory}, {"web": 2.5}, {"node1": 3.5})
    (tmp_path / "kept").write_text(content_of(known))
    assert read(str(tmp_path / "kept")) == known


def test_memory_is_empty_without_a_file(tmp_path: Path) -> None:
    assert read(str(tmp_path / "kept")) == PolicyMemories()


MEMORY = {"spent": [], "failed": 0, "error": "", "rests_until": 0, "rounds": {}}


def written(**changes: Any) -> str:
    """A file with such a memory."""
    memories = {"rebalance": {**MEMORY, **changes}}
    return json.dumps({"version": 1, "policies": memories, "moved": {}, "switched": {}})


def test_reads_rounds_from_the_memory(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text(written(rounds={"rebalance": {"rack1": [1, False, 2.5, 0]}}))
    known = read(str(tmp_path / "kept"))
    assert known.memories["rebalance"].rounds_of("rebalance", "rack1") == Rounds(1, False, 2.5)


def test_failures_that_an_older_daemon_counted_hold_in_all_groups(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text(written(failed=3, error="no", rests_until=9.5))
    memory = read(str(tmp_path / "kept")).memories["rebalance"]
    assert memory.failures_of("rack1") == Failures(3, "no", 9.5)
    memory.keep_failures(["rack1"])
    memory.forget_failures("rack1")
    assert memory.failures == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[7]",
        "{}",
        '{"version": 1, "policies": {"x": {}}, "moved": {}, "switched": {}}',
        '{"version": 1, "policies": 5}',
        written(rounds={"rebalance": 5}),
        written(failures=[]),
        written(failures={"rack1": {"failed": 1}}),
        written(rounds={"rebalance": {"rack1": ["1", False, 0, 0]}}),
        written(rounds={"rebalance": {"rack1": [1, False, 0, 0, 0]}}),
    ],
)
def test_renames_a_damaged_memory(tmp_path: Path, text: str) -> None:
    (tmp_path / "kept").write_text(text)
    with structlog.testing.capture_logs() as log:
        assert read(str(tmp_path / "kept")) == PolicyMemories()
    assert [line["log_level"] for line in log] == ["error"]
    (aside,) = tmp_path.iterdir()
    assert aside.name.startswith("kept.damaged-")
    assert aside.read_text() == text


def test_refuses_the_memory_of_a_newer_daemon(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text('{"version": 2}')
    with pytest.raises(HtoolsError, match="newer htoolsd"):
        read(str(tmp_path / "kept"))
    with pytest.raises(HtoolsError, match="not a regular file"):
        read(str(tmp_path))


def test_forgets_old_cool_downs() -> None:
    known = PolicyMemories({}, {"web": 10.0, "mail": 20.0}, {"node1": 10.0, "node2": 20.0})
    known.forget(15.0)
    assert (known.moved, known.switched) == ({"mail": 20.0}, {"node2": 20.0})


def test_future_times_become_the_present() -> None:
    rounds = {"rebalance": {"rack1": Rounds(2, True, 9e9, 9e9)}}
    memory = PolicyMemory([Expense(9e9, 2, 3), Expense(5.0, 1, 1)], {"rack1": Failures(2, "no", 9e9)}, rounds)
    known = PolicyMemories({"rebalance": memory}, {"web": 9e9, "mail": 7.0}, {"node1": 9e9})
    known.clamp_times(10.0, {"rebalance": PolicySettings(back_off_seconds=100.0)})
    assert (known.moved, known.switched) == ({"web": 10.0, "mail": 7.0}, {"node1": 10.0})
    assert [each.time for each in memory.spent] == [10.0, 5.0]
    assert memory.worst.rests_until == 210.0
    assert memory.rounds_of("rebalance", "rack1") == Rounds(2, True, 10.0, 10.0)


def test_moved_instances_rest_during_the_cool_down() -> None:
    assert resting({"web": 10.0, "mail": 20.0}, PolicySettings(cool_down_seconds=15.0), 30.0) == ["mail"]


def test_refund_keeps_what_others_noted_meanwhile() -> None:
    memories = PolicyMemories({"rebalance": PolicyMemory()}, moved={"web": 5.0}, switched={"node1": 6.0})
    charge = memories.charge("rebalance", Expense(1000.0, 1, 10, "p1"), ["web", "db", "mail"], ["node1"])
    memories.moved |= {"by-hand": 1000.5, "mail": 1000.5}
    memories.switched |= {"node9": 1000.5}
    memories.refund(charge)
    assert memories.moved == {"web": 5.0, "by-hand": 1000.5, "mail": 1000.5}
    assert memories.switched == {"node1": 6.0, "node9": 1000.5}
    assert not memories.memories["rebalance"].spent
