import re
from typing import Any

import pytest

from ganeti_htools.commandline.line import CommandLine, Program
from ganeti_htools.commandline.option import Option
from ganeti_htools.commandline.programs import HAIL, PROGRAMS
from ganeti_htools.commandline.reading import Reply, parse_or_exit, read

OPTIONS = {name: option for name, option in vars(CommandLine).items() if isinstance(option, Option)}


def value(option: Option[Any], *argv: str) -> Any:
    line = parse_or_exit(Program("tool", "", (option,)), argv)
    return getattr(line, option.field)


def test_every_option_is_taken_by_a_program() -> None:
    taken = {option for program in PROGRAMS.values() for option in program.all_options}
    assert set(OPTIONS.values()) == taken


def test_options_with_one_value_have_one_default() -> None:
    assert all(option.default == OPTIONS[option.field].default for option in OPTIONS.values())


def test_class_has_options_and_line_has_values() -> None:
    assert CommandLine.max_moves.long == "max-moves"
    assert (CommandLine().max_moves, CommandLine(max_moves=3).max_moves) == (-1, 3)


def test_default_that_is_given_makes_no_difference() -> None:
    assert CommandLine(max_moves=-1) == CommandLine() != CommandLine(max_moves=3)


def test_unknown_value_is_refused() -> None:
    with pytest.raises(KeyError):
        CommandLine(no_such_option=True)


@pytest.mark.parametrize(
    ("argument", "seconds"),
    [("90", 90), ("1.5", 1.5), ("90s", 90), ("10min", 600), ("10m", 600), ("2h", 7200), ("1d", 86400)],
)
def test_durations_have_units(argument: str, seconds: float) -> None:
    assert value(CommandLine.optimise, f"--optimise={argument}") == seconds


def test_prices_are_up_to_three() -> None:
    assert value(CommandLine.price, "--price=0.5") == (0.5,)
    assert value(CommandLine.price, "--price=0.5,0,2") == (0.5, 0, 2)
    assert (value(CommandLine.front, "--front"), value(CommandLine.front, "--front=3")) == (10, 3)


@pytest.mark.parametrize(
    ("argument", "mib", "ours"),
    [("4096", 4096, 4096), ("4g", 4096, 4096), ("1T", 953674, 1 << 20), ("4GB", 3814, 3814)],
)
def test_capital_units_are_decimal_only_where_debians_are(argument: str, mib: int, ours: int) -> None:
    assert value(CommandLine.static_kvm_node_memory, f"--static-kvm-node-memory={argument}") == mib
    assert value(CommandLine.max_copy, f"--max-copy={argument}") == ours
    assert value(CommandLine.disk, f"--disk={argument}") == ((ours, None),)


def test_specs_have_units_and_spindles_are_1_unless_given() -> None:
    assert value(CommandLine.standard_alloc, "--standard-alloc=1g,512,2") == (1024, 512, 2, 1)
    assert value(CommandLine.tiered_alloc, "--tiered-alloc=1024,1t,4,3") == (1024, 1024 * 1024, 4, 3)


@pytest.mark.parametrize(
    ("option", "argument", "error"),
    [
        (CommandLine.standard_alloc, "1,2", "Invalid .* specification: '1,2', expected disk,ram,cpu"),
        (CommandLine.max_cpu, "0", "expected a ratio above 0, not '0'"),
        (
            CommandLine.optimise,
            "1w",
            "cannot parse string '1w', expected a time such as 90s, 10min, 2h or 1d",
        ),
        (CommandLine.optimise, "-1s", "cannot parse string '-1s', expected a time"),
        (CommandLine.price, "1,2,3,4", "expected DISKS.* not '1,2,3,4'"),
        (CommandLine.bandwidth, "0", "expected Mbit/s above 0, not '0'"),
        (CommandLine.front, "0", "expected a number above 0, not 0"),
        (CommandLine.priority, "urgent", "Unknown priority 'urgent', expected low, normal or high"),
    ],
)
def test_error_says_what_is_expected(option: Option[Any], argument: str, error: str) -> None:
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
def test_error_names_option_and_argument(option: str, error: str) -> None:
    result = read(HAIL, ["--help", option])
    assert isinstance(result, Reply)
    assert result.status == 1
    assert re.fullmatch(f"Error while parsing command line arguments:\n{error}\n", result.text)
