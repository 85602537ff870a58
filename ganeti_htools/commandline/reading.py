"""Command lines, read as GNU getopt and Ganeti's tools read them.

Options and arguments may be mixed, up to ``--``; long options may be shortened to a unique prefix;
``-vv`` is ``-v -v``; an argument that may be left out has to be attached (``-pname``,
``--print-nodes=name``). As Ganeti gives every iallocator parameter a value, an empty one
(``--mond-xen=``) is the same as none where none is required.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, NamedTuple

from ganeti_htools.model.errors import DataError, UsageError
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.types import DiskTemplate


class CommandLine(NamedTuple):  # a dataclass with as many fields would be 4 ms of every program's start
    """What was given: the value of each option, by its long name, and all other arguments.

    ``simulate`` holds the specification given last first, as Ganeti's tools number the groups; each with the
    storage that was given after it (``backends/simu.py``).
    """

    arguments: tuple[str, ...] = ()
    accept_existing_errors: bool = False
    all_groups: bool = False
    allow_all: bool = False
    allow_drbd: bool = False
    allow_plain: bool = False
    among: tuple[str, ...] = ()
    ask_storage: bool = False
    avoid_disk_moves: float | None = None
    avoid_long_solutions: float = 0.0
    daemon: str | None = None
    disk: tuple[tuple[int, DesiredUnit | None], ...] = ()
    disk_template: DiskTemplate | None = None
    dynu_file: str | None = None
    evac_mode: bool = False
    exclude_instances: tuple[str, ...] = ()
    exclusion_tags: tuple[str, ...] = ()
    exec: bool = False
    exit_on_missing_mond_data: bool = False
    explain: str | None = None
    first_job_group: bool = False
    force: bool = False
    full_evacuation: bool = False
    group: str | None = None
    groups: int = 1
    help: bool = False
    help_completion: bool = False
    ialloc_src: str | None = None
    ignore_dynu: bool = False
    ignore_non_redundant: bool = False
    ignore_soft_errors: bool = False
    independent_groups: bool = False
    inter_group: bool = False
    json: bool = False
    long_solution_threshold: int = 1000
    luxi: str | None = None
    machine_readable: bool = False
    master: str = ""
    max_copy: int = -1
    max_cpu: float | None = None
    max_length: int = -1
    max_moves: int = -1
    max_nodes: int = -1
    min_disk: float = 0.0
    min_gain: float = 1e-2
    min_gain_limit: float = 1e-1
    min_score: float = 1e-9
    minimal_resources: float | None = None
    mond: bool = False
    mond_data: str | None = None
    mond_xen: bool = False
    never: tuple[str, ...] = ()
    no_capacity_checks: bool = False
    no_disk_moves: bool = False
    no_headers: bool = False
    no_instance_moves: bool = False
    no_simulation: bool = False
    no_wait: bool = False
    node_tags: tuple[str, ...] | None = None
    offline: tuple[str, ...] = ()
    offline_maintenance: bool = False
    on_change: Literal["replan", "stop"] = "replan"
    one_step_only: bool = False
    optimise: float = 0.0
    output_dir: str = "."
    prefer: tuple[str, ...] = ()
    print_commands: str | None = None
    print_instances: bool = False
    print_moves: bool = False
    print_nodes: tuple[str, ...] | None = None
    priority: Literal["low", "normal", "high"] | None = None
    rapi_ca: str | None = None
    reason: str | None = None
    reserve: float = 0.0
    resource: tuple[tuple[str, int], ...] = ()
    restrict_allocation_to: tuple[str, ...] | None = None
    restricted_migration: bool = False
    save: str | None = None
    select_instances: tuple[str, ...] = ()
    simulate: tuple[str, ...] = ()
    spindle_use: int | None = None
    standard_alloc: tuple[int, ...] = ()
    skip_non_redundant: bool = False
    standby_data: str | None = None
    state_of_record: bool = False
    static_kvm_node_memory: int = 4096
    storage: bool = False
    storage_unit: DesiredUnit | None = None
    target_resources: float | None = None
    text_data: str | None = None
    tiered_alloc: tuple[int, ...] = ()
    verbose: int = 1
    version: bool = False
    wait_for_nodes: bool = False
    what_if_lost: str | None = None
    worst_group: bool = False


class Takes(Enum):
    """Whether an option has an argument."""

    NOTHING = 0
    ARGUMENT = 1
    OPTIONAL = 2


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its names, how it changes its value, and what help and shell completion say of it.

    ``update`` makes the new value of the old one and the argument, which is empty where none was given
    and none is required; it raises DataError. ``completion`` is in Ganeti's words. The value is found
    under the option's long name unless ``field`` names another. An option that is ``whole`` cannot be
    shortened, so that an older one stays unique where it was.
    """

    short: str
    long: str
    help: str
    update: Callable[[Any, str], Any]
    takes: Takes = Takes.NOTHING
    metavar: str = ""
    completion: str = "none"
    field: str = ""
    whole: bool = False

    def applied(self, line: CommandLine, argument: str) -> CommandLine:
        """The command line with this option added."""
        field = self.field or self.long.replace("-", "_")
        return line._replace(**{field: self.update(getattr(line, field), argument)})


def switch(short: str, long: str, text: str, whole: bool = False) -> Option:
    """An option without argument."""
    return Option(short, long, text, lambda _old, _argument: True, whole=whole)


HELP = switch("h", "help", "show this help")
VERSION = switch("V", "version", "show the version")
HELP_COMPLETION = switch("", "help-completion", "show what shell completion needs to know")


@dataclass(frozen=True, slots=True)
class Program:
    """A program: its options, and its arguments as ``--help-completion`` tells them."""

    name: str
    options: Sequence[Option]
    arguments: Sequence[str] = ()

    @property
    def all_options(self) -> tuple[Option, ...]:
        """Its own options and those of every program."""
        return (*self.options, VERSION, HELP, HELP_COMPLETION)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a program says, and its exit status, instead of doing its work."""

    status: int
    text: str


def read(program: Program, argv: Sequence[str]) -> CommandLine | Reply:
    """Read a command line, given without the program's name."""
    occurrences, arguments, errors = _split(program, argv)
    if errors:
        return Reply(2, f"Command line error: {''.join(errors)}\n{_usage(program)}")
    line = CommandLine(tuple(arguments))
    for option, argument in occurrences:
        try:
            line = option.applied(line, argument)
        except DataError as error:
            return Reply(1, f"Error while parsing command line arguments:\n--{option.long}: {error}\n")
    if line.help:
        return Reply(0, _usage(program))
    if line.version:
        return Reply(0, _version(program))
    if line.help_completion:
        return Reply(0, _completion(program))
    return line


def obey(program: Program, argv: Sequence[str]) -> CommandLine:
    """The command line. If there is a reply instead, prints it and raises SystemExit."""
    result = read(program, argv)
    if isinstance(result, Reply):
        print(result.text, end="", file=sys.stderr if result.status else sys.stdout, flush=True)
        raise SystemExit(result.status)
    return result


def _split(program: Program, argv: Sequence[str]) -> tuple[list[tuple[Option, str]], list[str], list[str]]:
    """Options with their arguments, other arguments, and lines about what is wrong."""
    rest = list(reversed(argv))
    occurrences: list[tuple[Option, str]] = []
    arguments: list[str] = []
    errors: list[str] = []
    while rest:
        word = rest.pop()
        if word == "--":
            arguments += reversed(rest)
            break
        try:
            if word.startswith("--"):
                occurrences.append(_long(program, word, rest))
            elif word.startswith("-") and word != "-":
                occurrences.append(_short(program, word, rest))
            else:
                arguments.append(word)
        except UsageError as error:
            errors.append(f"{error}\n")
    return occurrences, arguments, errors


def _long(program: Program, word: str, rest: list[str]) -> tuple[Option, str]:
    name, attached, argument = word.removeprefix("--").partition("=")
    options = [option for option in program.all_options if option.long == name] or [
        option for option in program.all_options if option.long.startswith(name) and not option.whole
    ]
    if not options:
        raise UsageError(f"unrecognized option `{word}'")
    if len(options) > 1:
        table = _table(options).removesuffix("\n")
        raise UsageError(f"option `--{name}' is ambiguous; could be one of:\n{table}")
    (option,) = options
    if option.takes is Takes.NOTHING and argument:
        raise UsageError(f"option `--{name}' doesn't allow an argument")
    if option.takes is Takes.ARGUMENT and not attached:
        argument = _next(option, f"--{name}", rest)
    return option, argument


def _short(program: Program, word: str, rest: list[str]) -> tuple[Option, str]:
    letter, more = word[1], word[2:]
    option = next((option for option in program.all_options if option.short == letter), None)
    if more and (option is None or option.takes is Takes.NOTHING):
        rest.append(f"-{more}")
        more = ""
    if option is None:
        raise UsageError(f"unrecognized option `-{letter}'")
    if option.takes is Takes.ARGUMENT and not more:
        more = _next(option, f"-{letter}", rest)
    return option, more


def _next(option: Option, name: str, rest: list[str]) -> str:
    if not rest:
        raise UsageError(f"option `{name}' requires an argument {option.metavar}")
    return rest.pop()


def _names(option: Option) -> tuple[str, str]:
    short, long = option.short and f"-{option.short}", f"--{option.long}"
    match option.takes:
        case Takes.NOTHING:
            return short, long
        case Takes.ARGUMENT:
            return short and f"{short} {option.metavar}", f"{long}={option.metavar}"
        case Takes.OPTIONAL:
            return short and f"{short}[{option.metavar}]", f"{long}[={option.metavar}]"


def _table(options: Sequence[Option]) -> str:
    names = [_names(option) for option in options]
    width = [max(map(len, column)) for column in zip(*names, strict=True)]
    return "".join(
        f"  {short:{width[0]}}  {long:{width[1]}}  {option.help}\n"
        for option, (short, long) in zip(options, names, strict=True)
    )


def _usage(program: Program) -> str:
    from ganeti_htools.version import title  # slow to load and seldom needed

    return f"{title(program.name)}\nUsage: {program.name} [OPTION...]\n{_table(program.all_options)}"


def _version(program: Program) -> str:
    from ganeti_htools.version import title

    python = ".".join(map(str, sys.version_info[:3]))
    return f"{title(program.name)}\nrunning with Python {python} on {sys.platform}\n"


def _completion(program: Program) -> str:
    lines = [
        f"{'-' + option.short + ',' if option.short else ''}--{option.long} {option.completion}"
        for option in program.all_options
    ]
    return "".join(f"{line}\n" for line in (*lines, *program.arguments))
