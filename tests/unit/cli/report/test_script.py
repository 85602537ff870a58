"""Shell commands for reading and for the shell."""

from ganeti_htools.cli.report.script import listed, script, shown

COMMANDS = "\necho jobset 1, 1 jobs\n  echo job 1/1\n  check\n  gnt-instance migrate -f i0\n"


def test_commands_for_reading_and_for_the_shell() -> None:
    assert listed([[["gnt-instance migrate -f i0"]]]) == COMMANDS
    assert shown(COMMANDS) == (
        "  \n  echo jobset 1, 1 jobs\n    echo job 1/1\n    gnt-instance migrate -f i0\n"
    )
    assert script(COMMANDS).startswith("#!/bin/sh\n")
    assert script(COMMANDS).endswith(COMMANDS)
