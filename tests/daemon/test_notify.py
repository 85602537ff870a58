"""Notifications of a running daemon, by a program."""

import json
from pathlib import Path
from signal import SIGHUP
from typing import Any

from tests.daemon.planning import FOR_EVER, OFTEN, call, ctl, following, made, until
from tests.support.notifying import recording_program
from tests.support.programs import wait_until
from tests.support.worlds import uneven

FAIL = "if test -e {0}/fail; then echo no route >&2; exit 3; fi\n"
QUICK = "pause_seconds = 0.01\nevery_seconds = 0.01\nretry_seconds = 0.01\n"


def test_program_is_notified(tmp_path: Path) -> None:
    program = recording_program(tmp_path, FAIL.format(tmp_path))
    config = f'{OFTEN}[notify]\nprogram = "{program}"\n{QUICK}'

    def events(kind: str, *states: str) -> list[Any]:
        """Wait until the program got events of a kind, in these states."""

        def read() -> list[Any]:
            file = tmp_path / "messages"
            messages = map(json.loads, file.read_text().splitlines()) if file.exists() else ()
            return [event for each in messages for event in each["events"] if event["kind"] == kind]

        wait_until(lambda: [each["state"] for each in read()] == list(states))
        return read()

    with following(tmp_path, uneven(), FOR_EVER, config) as (daemon, _):
        shown = ctl(daemon, "notify", "--test")
        assert (shown.returncode, shown.stdout) == (0, f"delivered to {program}, exit status 0\n")
        events("test", "happened")

        daemon.configure("speed = 1\n")
        daemon.signal(SIGHUP)
        (begun,) = events("reload", "begun")
        (line,) = (each for each in daemon.status()["attention"] if each["kind"] == "reload")
        assert {key: begun[key] for key in line} == line

        plan = made(daemon)["id"]
        call(daemon, "execute", plan=plan)
        until(daemon, "running")
        assert ctl(daemon, "cancel", "--now", plan).returncode == 0
        (interrupted,) = events("plan", "happened")
        assert interrupted["text"].startswith(f"plan {plan} of hbal was interrupted")

        (tmp_path / "fail").touch()
        shown = ctl(daemon, "notify", "--test")
        why = f"{program}: exit status 3: no route"
        assert (shown.returncode, shown.stdout) == (1, f"not delivered: {why}\n")
        assert f"ATTENTION  notifications are not delivered: {why}" in ctl(daemon, "status").stdout
        daemon.configure(config)
        daemon.signal(SIGHUP)
        (tmp_path / "fail").unlink()
        assert events("reload", "begun", "over")[1]["text"] == f"over: {line['text']}"
        wait_until(lambda: daemon.status()["notify"]["error"] is None)
        assert "notify     " in ctl(daemon, "status").stdout
