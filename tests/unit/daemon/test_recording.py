"""The recording: bounded, and intact after errors."""

import os
from pathlib import Path

import pytest
import trio

from ganeti_htools.recording.decision import RecordedDecision, read_decision
from ganeti_htools.recording.files import contents
from htoolsd import recording
from htoolsd.config.recording import RecordingSettings
from htoolsd.recording import DecisionMade, Recording
from tests.support.programs import PATIENCE
from tests.support.settings import change, settings


class Idle:
    async def idle(self) -> None:
        await trio.lowlevel.checkpoint()


def made(name: str, size: int = 1000) -> DecisionMade:
    """A decision about so many random bytes, which cannot be compressed."""
    return DecisionMade(RecordedDecision(name, 1.0, "0", (), os.urandom(size), None, (), None, "{}"))


def names(directory: Path) -> list[str]:
    damage = list[str]()
    found = [read_decision(each).id for each in contents(directory, lambda _head: True, damage.append)]
    assert damage == []
    return found


async def written(kept: Recording) -> None:
    with trio.fail_after(PATIENCE):
        while kept.status()["waiting"]:
            await trio.sleep(0.005)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_PAUSE", 0.0)


async def test_files_stay_within_the_limit_and_the_newest_decisions_are_read(tmp_path: Path) -> None:
    known = settings(recording=RecordingSettings(mib=1))
    kept, sizes = Recording(str(tmp_path), known, Idle()), list[int]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        for number in range(30):
            kept.note(made(f"id{number}", 70_000))
            await written(kept)
            sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))
        assert 700_000 < max(sizes) <= 1 << 20
        assert kept.status()["bytes"] == sizes[-1]
        found = names(tmp_path)
        assert (found, len(found) > 9) == ([f"id{number}" for number in range(30)][-len(found) :], True)
        kept.note(made("large", 2 << 20))
        await written(kept)
        assert "takes more than the limit" in kept.status()["error"]
        change(known, recording=RecordingSettings(mib=1, days=1e-9))
        kept.note(made("next"))
        await written(kept)
        assert (names(tmp_path), kept.status()["lost"], kept.status()["error"]) == (["next"], 1, None)
        change(known, recording=RecordingSettings())
        kept.note(made("none"))
        assert kept.status()["waiting"] == 0
        nursery.cancel_scope.cancel()


async def test_goes_on_after_a_disk_refused_and_writes_the_last_decisions_at_the_end(tmp_path: Path) -> None:
    directory = tmp_path / "recording"
    directory.touch()
    kept = Recording(str(directory), settings(recording=RecordingSettings(mib=1)), Idle())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        kept.note(made("lost"))
        await written(kept)
        assert (kept.status()["lost"], "File exists" in kept.status()["error"]) == (1, True)
        directory.unlink()
        kept.note(made("one"))
        await written(kept)
        kept.note(made("two"))
        nursery.cancel_scope.cancel()
    assert names(directory) == ["one", "two"]


async def test_more_than_can_wait_are_lost(tmp_path: Path) -> None:
    kept = Recording(str(tmp_path), settings(recording=RecordingSettings(mib=1)), Idle())
    for _ in range(recording.MOST_WAITING + 2):
        kept.note(made("id"))
    assert (kept.status()["waiting"], kept.status()["lost"]) == (recording.MOST_WAITING, 2)
