"""What policies remember, on disk."""

from pathlib import Path

import pytest
import structlog

from ganeti_htools.model.errors import HtoolsError
from htoolsd.policies import kept
from htoolsd.policies.memory import Memory, Rounds, Spent, resting
from htoolsd.policies.settings import Settings


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    memory = Memory([Spent(1.5, 2, 3)], 1, "no", 7.5, {"rack1": Rounds(1)})
    path = tmp_path / "kept"
    path.write_text(kept.text({"rebalance": memory}, {"web": 2.5}))
    found, moved = kept.read(str(path))
    assert found == {"rebalance": Memory([Spent(1.5, 2, 3)], 1, "no", 7.5)}
    assert moved == {"web": 2.5}


def test_at_first_there_is_nothing(tmp_path: Path) -> None:
    assert kept.read(str(tmp_path / "kept")) == ({}, {})


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 1, "policies": {"x": {}}, "moved": {}}', '{"version": 1, "policies": 5}'],
)
def test_what_is_damaged_is_set_aside(tmp_path: Path, text: str) -> None:
    (tmp_path / "kept").write_text(text)
    with structlog.testing.capture_logs() as log:
        assert kept.read(str(tmp_path / "kept")) == ({}, {})
    assert [line["log_level"] for line in log] == ["error"]
    (aside,) = tmp_path.iterdir()
    assert aside.name.startswith("kept.damaged-")
    assert aside.read_text() == text


def test_what_a_newer_daemon_wrote_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text('{"version": 2}')
    with pytest.raises(HtoolsError, match="newer htoolsd"):
        kept.read(str(tmp_path / "kept"))
    with pytest.raises(HtoolsError, match="no regular file"):
        kept.read(str(tmp_path))


def test_instances_rest_for_a_while() -> None:
    assert resting({"web": 10.0, "mail": 20.0}, Settings(cool_down_seconds=15.0), 30.0) == ["mail"]
