"""What is said before the daemon is asked for a plan."""

import pytest

from ganeti_htools.cli.runs import by_daemon
from ganeti_htools.commandline.programs import HBAL
from ganeti_htools.commandline.reading import obey
from ganeti_htools.model.errors import UsageError
from ganeti_htools.planning import hbal


@pytest.mark.parametrize(
    "option",
    [
        "--dynu-file=loads",
        "--dynu-file=",
        "--ialloc-src=request",
        "--mond",
        "--mond-data=file",
        "--simulate=a",
    ],
)
def test_options_that_the_daemon_cannot_use(option: str) -> None:
    line = obey(HBAL, ["-D", option])
    name = option.partition("=")[0]
    with pytest.raises(UsageError, match=f"^{name} cannot be used where htoolsd makes the plan$"):
        by_daemon.plan(line, "hbal", hbal.Options(), None)
