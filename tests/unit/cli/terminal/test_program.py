"""Programs end with one line, or silently, however they end."""

import signal
from collections.abc import Callable, Iterator

import pytest

from ganeti_htools.cli.terminal.program import INTERRUPTED, execute
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.programs import HINFO
from ganeti_htools.model.errors import HtoolsError


def _ending(error: BaseException) -> Callable[[CommandLine], int]:
    def run(_line: CommandLine) -> int:
        raise error

    return run


def test_the_status_of_the_run() -> None:
    assert execute(HINFO, lambda _line: 3, []) == 3
    assert execute(HINFO, lambda _line: None, []) == 0


def test_errors_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(HINFO, _ending(HtoolsError("node 'a': too small")), []) == 1
    assert capsys.readouterr().err == "Error: node 'a': too small\n"


def test_arguments_where_none_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(HINFO, lambda _line: 0, ["file"]) == 1
    assert capsys.readouterr().err == "Error: This program doesn't take any arguments.\n"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """As a program at a terminal is, whoever has started the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("wrapped", [False, True])
def test_an_interruption_is_no_traceback(capsys: pytest.CaptureFixture[str], wrapped: bool) -> None:
    def run(_line: CommandLine) -> int:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as interruption:
            if wrapped:  # as tasks of a nursery put it
                raise BaseExceptionGroup("tasks", [interruption]) from None
            raise
        return 0

    assert execute(HINFO, run, []) == INTERRUPTED
    assert "Traceback" not in capsys.readouterr().err
