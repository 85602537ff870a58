"""A Prometheus of Debian's package, with history that a test decides."""

import os
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.programs import wait_until

_UNPACKED = Path(__file__).parents[2] / ".cache/tools/usr/bin"  # where .ci/run unpacks the package


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:{_UNPACKED}")
    if found is None:
        pytest.skip("no Prometheus: .ci/unpack-deb --only .cache/tools prometheus")
    return found


# Values by time (seconds of the epoch) of each series, like ``cpu_seconds_total{name="web1"}``.
History = Mapping[str, Iterable[tuple[float, float]]]


def openmetrics(history: History) -> Iterator[str]:
    """Write history as lines of text."""
    of_families = dict[str, list[str]]()
    for series, values in history.items():
        lines = of_families.setdefault(series.partition("{")[0], [])
        lines += (f"{series} {value} {time}" for time, value in values)
    for family, lines in of_families.items():
        kind = "counter" if family.endswith("_total") else "gauge"
        yield f"# TYPE {family.removesuffix('_total')} {kind}"
        yield from lines
    yield "# EOF"


@contextmanager
def serving(directory: Path, history: History) -> Iterator[str]:
    """Run a server with this history within the block; gives its URL. Without the programs, skip the test."""
    prometheus, promtool = _program("prometheus"), _program("promtool")
    text, data, config = (directory / name for name in ("history", "data", "prometheus.yml"))
    text.write_text("\n".join(openmetrics(history)) + "\n")
    config.write_text("")
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", text, data], check=True, capture_output=True
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (directory / "log").open("w") as log:
        running = subprocess.Popen(
            [
                prometheus,
                f"--config.file={config}",
                f"--storage.tsdb.path={data}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--storage.tsdb.retention.time=60d",
            ],
            stderr=log,
        )
    try:
        wait_until(lambda: running.poll() is not None or _answers(port))
        assert running.poll() is None, (directory / "log").read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5).close()
    except (OSError, urllib.error.URLError):
        return False
    return True
