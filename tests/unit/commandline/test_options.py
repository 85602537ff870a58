import re
from typing import Any

import pytest

from ganeti_htools.commandline import options
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.option import Option, Program
from ganeti_htools.commandline.programs import HAIL
from ganeti_htools.commandline.reading import Reply, obey, read

OF_ALL_PROGRAMS = Program("tool", "", ()).all_options
OPTIONS = [*OF_ALL_PROGRAMS, *(value for value in vars(options).values() if isinstance(value, Option))]


def value(option: Option, *argv: str) -> Any:
    line = obey(Program("tool", "", (option,)), argv)
    return getattr(line, option.field or option.long.replace("-", "_"))


def test_every_value_of_a_command_line_has_an_option() -> None:
    values = set(CommandLine._fields) - {"arguments"}
    assert {option.field or option.long.replace("-", "_") for option in OPTIONS} == values


def test_sizes_have_units_and_spindles_are_1_unless_given() -> None:
    assert value(options.STANDARD_ALLOC, "--standard-alloc=1g,512,2") == (1024, 512, 2, 1)
    assert value(options.TIERED_ALLOC, "--tiered-alloc=1024,1t,4,3") == (1024, 1024 * 1024, 4, 3)


@pytest.mark.parametrize(
    ("option", "argument", "error"),
    [
        (options.STANDARD_ALLOC, "1,2", "Invalid .* specification: '1,2', expected disk,ram,cpu"),
        (options.MAX_CPU, "0", "expected a ratio above 0, not '0'"),
        (options.PRIORITY, "urgent", "Unknown priority 'urgent', expected low, normal or high"),
    ],
)
def test_what_a_value_has_to_be_is_told(option: Option, argument: str, error: str) -> None:
    result = read(Program("tool", "", (option,)), [f"--{option.long}={argument}"])
    assert isinstance(result, Reply)
    assert re.search(f"--{option.long}: {error}", result.text)


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ("--mond=maybe", "--mond: expected one of yes, no, not 'maybe'"),
        ("--static-kvm-node-memory=abc", "--static-kvm-node-memory: cannot parse string 'abc', expected .*"),
        ("--static-kvm-node-memory=", "--static-kvm-node-memory: cannot parse string '', expected .*"),
        ("--static-kvm-node-memory=-1", "--static-kvm-node-memory: cannot parse string '-1', expected .*"),
    ],
)
def test_a_bad_value_is_told(option: str, error: str) -> None:
    result = read(HAIL, ["--help", option])
    assert isinstance(result, Reply)
    assert result.status == 1
    assert re.fullmatch(f"Error while parsing command line arguments:\n{error}\n", result.text)
