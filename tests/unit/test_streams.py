import os
import signal
import subprocess
import sys

import pytest

from ganeti_htools import streams


def test_closed_streams_are_opened_to_nowhere() -> None:
    script = (
        "from ganeti_htools import streams; streams.open_missing(); print(open('/dev/null').fileno() > 2)"
    )
    closed = f'"{sys.executable}" -c "{script}" <&- 2>&-'
    assert subprocess.run(["sh", "-c", closed], stdout=subprocess.PIPE, check=True).stdout == b"True\n"


def test_a_character_that_the_terminal_lacks_is_escaped() -> None:
    script = "from ganeti_htools import streams; streams.open_missing(); print('\\xe4')"
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, check=True
    )
    assert ended.stdout == b"\\xe4\n"


def test_a_signal_that_was_ignored_at_the_start_is_not_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_IGN}
    monkeypatch.setattr(signal, "getsignal", handlers.__getitem__)
    assert streams.not_ignored(signal.SIGINT, signal.SIGHUP) == (signal.SIGINT,)


def test_what_is_no_terminal_has_no_width(capfd: pytest.CaptureFixture[str]) -> None:
    print("captured")
    assert capfd.readouterr().out == "captured\n"
    assert streams.width() is None


def test_terminal_of_unknown_size_has_80_columns_unless_output_is_wide() -> None:
    script = (
        "from ganeti_htools import streams; print(streams.width()); "
        "streams.disable_fitting(); print(streams.width())"
    )
    ours, its = os.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(its, "wb") as terminal:
        subprocess.run([sys.executable, "-c", script], stdout=terminal, check=True)
        assert os.read(ours, 100).split() == [b"80", b"None"]
