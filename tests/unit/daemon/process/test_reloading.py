"""A configuration that is read again while the daemon runs."""

import structlog

from ganeti_htools.model.errors import DataError
from htoolsd.process.config import Config
from htoolsd.process.reloading import reloader


def test_each_configuration_is_heeded_and_a_wrong_one_changes_nothing() -> None:
    files: list[Config | DataError] = [
        Config(stop_seconds=1.0),
        DataError("wrong"),
        Config(stop_seconds=2.0, socket="/elsewhere"),
    ]
    heeded: list[Config] = []

    def read() -> Config:
        found = files.pop(0)
        if isinstance(found, DataError):
            raise found
        return found

    reload = reloader(Config(), read, heeded.append)
    with structlog.testing.capture_logs() as log:
        for _ in range(3):
            reload()
    assert heeded == [Config(stop_seconds=1.0), Config(stop_seconds=2.0)]
    assert [line["event"] for line in log] == [
        "configuration reloaded",
        "configuration not reloaded",
        "configuration reloaded",
        "takes a restart",
    ]
    assert log[-1]["keys"] == ["socket"]
