"""State directories of earlier versions are read: nothing is lost, nothing is complained about."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli.htoolsctl import main
from ganeti_htools.version import VERSION
from tests.daemon.planning import call, known, last
from tests.support.cases import TYPES
from tests.support.programs import running, wait_until
from tests.support.simulators import simulator
from tests.support.states import CONFIG, STATES


def test_state_of_this_version_is_kept() -> None:
    """If not: python -m tests.support.states."""
    assert (STATES / VERSION).exists()


@pytest.mark.parametrize("kept", [pytest.param(path, id=path.name) for path in sorted(STATES.iterdir())])
def test_state_of_each_version_is_read(tmp_path: Path, kept: Path) -> None:
    directory = tmp_path / "daemon"
    state = directory / "state"
    shutil.copytree(kept, state)
    for dump in state.glob("*.sql"):
        with closing(sqlite3.connect(dump.with_suffix(".sqlite"))) as database:
            database.executescript(dump.read_text())
    entries = (kept / "history.sql").read_text().count('INSERT INTO "entries"')
    cluster = text.parse((kept / "cluster.data").read_text(), "cluster.data")
    with simulator(directory, cluster), running(directory, config=CONFIG) as daemon:
        known(daemon)
        wait_until(lambda: daemon.status()["ledger"]["providers"])
        inventories = [each["inventories"] for each in call(daemon, "inventory")]
        assert [each["CUSTOM_GPU"]["total"] for each in inventories if "CUSTOM_GPU" in each] == [4]
        assert {path.stem for path in kept.glob("plans/*")} == {each["id"] for each in call(daemon, "plans")}
        assert last(daemon)["state"] == "done"
        assert len(call(daemon, "history")) >= entries
        assert {each["error"] for each in daemon.status()["policies"]} == {None}
        assert [each for each in daemon.events() if each["level"] in ("warning", "error")] == []


@pytest.mark.parametrize(
    "kept", [pytest.param(path, id=path.parent.name) for path in STATES.glob("*/recording")]
)
def test_decisions_of_this_version_are_made_again_to_the_byte_and_others_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kept: Path
) -> None:
    """After a change of answers on purpose: python -m tests.support.states."""
    config = tmp_path / "config"
    config.write_text(f'state_dir = "{kept.parent}"\n')
    assert main(["replay", "--json", "--config", str(config)]) in (0, 3)
    again = json.loads(capsys.readouterr().out)
    assert again["counts"].keys() == {*TYPES}
    assert again["exact"] == again["compared"] or kept.parent.name != VERSION
