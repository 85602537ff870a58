"""Command lines, read as GNU getopt and Ganeti's tools read them.

Options and arguments may be mixed, up to ``--``; long options may be shortened to a unique prefix;
``-vv`` is ``-v -v``; an argument that may be left out has to be attached (``-pname``,
``--print-nodes=name``). As Ganeti gives every iallocator parameter a value, an empty one
(``--mond-xen=``) is the same as none where none is required.

Each option is declared once; a program lists those it takes.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from ganeti_htools.backends import values
from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.errors import DataError, UsageError
from ganeti_htools.model.types import DiskTemplate

_TEMPLATES = {template.value: template for template in DiskTemplate}


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What was given: the value of each option, by its long name, and all other arguments.

    ``simulate`` holds the specification given last first, as Ganeti's tools number the groups.
    """

    arguments: tuple[str, ...] = ()
    accept_existing_errors: bool = False
    avoid_disk_moves: float | None = None
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
    help: bool = False
    help_completion: bool = False
    ialloc_src: str | None = None
    ignore_dynu: bool = False
    ignore_non_redundant: bool = False
    ignore_soft_errors: bool = False
    independent_groups: bool = False
    json: bool = False
    luxi: str | None = None
    machine_readable: bool = False
    master: str = ""
    max_cpu: float | None = None
    max_length: int = -1
    min_disk: float = 0.0
    min_gain: float = 1e-2
    min_gain_limit: float = 1e-1
    min_score: float = 1e-9
    minimal_resources: float = 2.0
    mond: bool = False
    mond_data: str | None = None
    mond_xen: bool = False
    no_capacity_checks: bool = False
    no_disk_moves: bool = False
    no_headers: bool = False
    no_instance_moves: bool = False
    no_simulation: bool = False
    node_tags: tuple[str, ...] | None = None
    offline: tuple[str, ...] = ()
    offline_maintenance: bool = False
    one_step_only: bool = False
    output_dir: str = "."
    print_commands: str | None = None
    print_instances: bool = False
    print_moves: bool = False
    print_nodes: tuple[str, ...] | None = None
    priority: str | None = None
    rapi_ca: str | None = None
    reason: str | None = None
    restrict_allocation_to: tuple[str, ...] | None = None
    restricted_migration: bool = False
    save: str | None = None
    select_instances: tuple[str, ...] = ()
    simulate: tuple[str, ...] = ()
    spindle_use: int | None = None
    standard_alloc: tuple[int, ...] = ()
    skip_non_redundant: bool = False
    static_kvm_node_memory: int = 4096
    target_resources: float = 2.0
    text_data: str | None = None
    tiered_alloc: tuple[int, ...] = ()
    verbose: int = 1
    version: bool = False
    what_if_lost: str | None = None


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
    under the option's long name unless ``field`` names another.
    """

    short: str
    long: str
    help: str
    update: Callable[[Any, str], Any]
    takes: Takes = Takes.NOTHING
    metavar: str = ""
    completion: str = "none"
    field: str = ""

    def applied(self, line: CommandLine, argument: str) -> CommandLine:
        """The command line with this option added."""
        field = self.field or self.long.replace("-", "_")
        return replace(line, **{field: self.update(getattr(line, field), argument)})


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
    """The command line, without the program's name."""
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
    """The command line; or else it prints the reply, and raises SystemExit."""
    result = read(program, argv)
    if isinstance(result, Reply):
        (sys.stderr if result.status else sys.stdout).write(result.text)
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
        option for option in program.all_options if option.long.startswith(name)
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


def _title(program: Program) -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow to load and seldom needed

    try:
        return f"{program.name} (htoolsd) version {version('htoolsd')}\n"
    except PackageNotFoundError:
        return f"{program.name} (htoolsd), not installed\n"


def _usage(program: Program) -> str:
    return f"{_title(program)}Usage: {program.name} [OPTION...]\n{_table(program.all_options)}"


def _version(program: Program) -> str:
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{_title(program)}running with Python {python} on {sys.platform}\n"


def _completion(program: Program) -> str:
    lines = [
        f"{'-' + option.short + ',' if option.short else ''}--{option.long} {option.completion}"
        for option in program.all_options
    ]
    return "".join(f"{line}\n" for line in (*lines, *program.arguments))


def _switch(short: str, long: str, text: str) -> Option:
    return Option(short, long, text, lambda _old, _argument: True)


def _file(short: str, long: str, text: str, completion: str = "file") -> Option:
    return Option(short, long, text, lambda _old, name: name, Takes.ARGUMENT, "FILE", completion)


def _factor(long: str, text: str) -> Option:
    return Option(
        "", long, text, lambda _old, factor: values.number(factor), Takes.ARGUMENT, "FACTOR", "float"
    )


def _valued(
    short: str, long: str, text: str, read: Callable[[str], Any], metavar: str, completion: str
) -> Option:
    return Option(
        short, long, text, lambda _old, argument: read(argument), Takes.ARGUMENT, metavar, completion
    )


def _ratio(text: str) -> float:
    ratio = values.number(text)
    if not ratio:
        raise DataError(f"expected a ratio above 0, not {values.shown(text)}")
    return ratio


def _spec(name: str) -> Callable[[str], tuple[int, ...]]:
    """Disk and memory (MiB), CPUs, and spindles, which are 1 unless given."""
    readers = {"disk": values.size, "memory": values.size, "cpus": values.whole, "spindles": values.whole}

    def read(text: str) -> tuple[int, ...]:
        parts = text.split(",")
        if len(parts) not in (3, 4):
            raise DataError(
                f"Invalid {name} specification: {values.shown(text)}, expected disk,ram,cpu[,spindles]"
            )
        given = [
            values.read(reader, part, f"{name} specs {field}")
            for (field, reader), part in zip(readers.items(), parts, strict=False)
        ]
        return (*given, 1)[:4]

    return read


def _priority(text: str) -> str:
    if text not in ("low", "normal", "high"):
        raise DataError(f"Unknown priority {values.shown(text)}, expected low, normal or high")
    return text


def _yes_no(_old: bool, argument: str) -> bool:
    return values.choice(argument or "yes", {"yes": True, "no": False})


def _list(argument: str) -> tuple[str, ...]:
    return tuple(argument.split(",")) if argument else ()


def _fields(_old: object, argument: str) -> tuple[str, ...]:
    return ("+", *_list(argument[1:])) if argument.startswith("+") else _list(argument)


HELP = _switch("h", "help", "show this help")
VERSION = _switch("V", "version", "show the version")
HELP_COMPLETION = _switch("", "help-completion", "show what shell completion needs to know")

PRINT_NODES = Option(
    "p",
    "print-nodes",
    "list the nodes before and after; only these FIELDS, or with +FIELDS these too",
    _fields,
    Takes.OPTIONAL,
    "FIELDS",
)
SAVE = _file("S", "save", "save the cluster before and after to files starting with FILE", "none")
TEXT_DATA = _file("t", "text-data", "take the cluster from this text file")
SIMULATE = Option(
    "",
    "simulate",
    "take a node group without instances: POLICY,NODES,DISK,MEMORY,CPUS[,SPINDLES]; may be repeated",
    lambda old, spec: (spec, *old),
    Takes.ARGUMENT,
    "SPEC",
    "string",
)
VERBOSE = Option("v", "verbose", "say more; may be repeated", lambda old, _argument: old + 1)
DYNU_FILE = _file("U", "dynu-file", "take the instances' dynamic utilisation from this file")
IGNORE_DYNU = _switch("", "ignore-dynu", "take all dynamic utilisation to be 0")
IGNORE_SOFT_ERRORS = _switch("", "ignore-soft-errors", "disregard restrictions that are not strict")
NO_CAPACITY_CHECKS = _switch("", "no-capacity-checks", "do not check the global N+1 redundancy")
ACCEPT_EXISTING_ERRORS = _switch(
    "", "accept-existing-errors", "tolerate N+1 violations that are there already, but no new ones"
)
RESTRICT_ALLOCATION_TO = Option(
    "",
    "restrict-allocation-to",
    "allocate on these nodes only",
    lambda _old, names: _list(names),
    Takes.ARGUMENT,
    "NODE,...",
    "manynodes",
)
MOND = Option(
    "",
    "mond",
    "ask all monitoring daemons for dynamic data (yes) or none (no)",
    _yes_no,
    Takes.OPTIONAL,
    "CHOICE",
    "choices=yes,no",
)
MOND_DATA = _file("", "mond-data", "with --mond, read this file instead of asking the monitoring daemons")
MOND_XEN = _switch("", "mond-xen", "with --mond, use what Xen reports of each instance")
EXIT_ON_MISSING_MOND_DATA = _switch(
    "", "exit-on-missing-mond-data", "with --mond, stop if dynamic data is incomplete"
)
STATIC_KVM_NODE_MEMORY = Option(
    "",
    "static-kvm-node-memory",
    "memory that KVM nodes use themselves (MiB), instead of what they report; 0 to trust the report",
    lambda _old, text: values.whole(text),
    Takes.ARGUMENT,
    "N",
    "integer",
)

MASTER = Option(
    "m",
    "master",
    "take the cluster from the remote API at this address, or from the directory in file://PATH",
    lambda _old, address: address,
    Takes.ARGUMENT,
    "ADDRESS",
    "host",
)
LUXI = Option(
    "L",
    "luxi",
    "take the cluster from Ganeti on this machine, at the usual socket or at SOCKET",
    lambda _old, path: path,
    Takes.OPTIONAL,
    "SOCKET",
    "file",
)
RAPI_CA = _file("", "rapi-ca", "trust the remote API only by the certificates (PEM) in this file")
OUTPUT_DIR = Option(
    "d", "output-dir", "write files in this directory", lambda _old, path: path, Takes.ARGUMENT, "PATH", "dir"
)
NO_HEADERS = _switch("", "no-headers", "leave headers out")
JSON = _switch("", "json", "print the report as a JSON document and nothing else")
PRINT_COMMANDS = Option(
    "C",
    "print-commands",
    "print the commands that carry out the plan, or write them to FILE as a shell script",
    lambda _old, path: path or "-",
    Takes.OPTIONAL,
    "FILE",
)
EXEC = _switch("X", "exec", "carry the plan out (possible only over LUXI)")
MINIMAL_RESOURCES = _factor(
    "minimal-resources", "power nodes up if any has less free than this multiple of the standard instance"
)
TARGET_RESOURCES = _factor(
    "target-resources", "power nodes down as long as all keep this multiple of the standard instance free"
)

QUIET = Option("q", "quiet", "say less", lambda old, _argument: old - 1, field="verbose")
IALLOC_SRC = _file("I", "ialloc-src", "take the cluster from this iallocator request")
OFFLINE = Option(
    "O",
    "offline",
    "take this node for offline; may be repeated",
    lambda old, name: (*old, name),
    Takes.ARGUMENT,
    "NODE",
    "onenode",
)
MAX_CPU = _valued(
    "",
    "max-cpu",
    "virtual CPUs that a node may have for each of its CPUs, instead of what the group's policy says",
    _ratio,
    "RATIO",
    "float",
)
MIN_DISK = _valued(
    "",
    "min-disk",
    "part of a node's disk that has to stay free, from 0 to 1",
    values.number,
    "RATIO",
    "float",
)
PRINT_INSTANCES = _switch("", "print-instances", "list the instances, too")
GROUP = _valued("G", "group", "only this node group (name or UUID)", str, "ID", "onegroup")
EXCLUSION_TAGS = _valued(
    "",
    "exclusion-tags",
    "keep instances apart that share a tag with one of these prefixes",
    _list,
    "TAG,...",
    "string",
)
SELECT_INSTANCES = _valued(
    "", "select-instances", "only move these instances", _list, "INSTS", "manyinstances"
)
EXCLUDE_INSTANCES = _valued(
    "", "exclude-instances", "do not move these instances", _list, "INSTS", "manyinstances"
)
NO_DISK_MOVES = _switch("", "no-disk-moves", "only fail over or migrate, which copies no disks")
AVOID_DISK_MOVES = _factor(
    "avoid-disk-moves",
    "copy disks only where this gains more than FACTOR times what moves without copying gain",
)
NO_INSTANCE_MOVES = _switch(
    "", "no-instance-moves", "only change secondary nodes, which does not touch running instances"
)
EVAC_MODE = _switch("E", "evac-mode", "only move instances away from offline and drained nodes")
RESTRICTED_MIGRATION = _switch(
    "", "restricted-migration", "migrate instances off offline and drained nodes only"
)
FIRST_JOB_GROUP = _switch("", "first-job-group", "only commands of the first set of jobs")
REASON = _valued("", "reason", "the reason that jobs carry", str, "REASON", "none")
PRIORITY = _valued(
    "", "priority", "priority of jobs: low, normal or high", _priority, "PRIO", "choices=low,normal,high"
)
EXPLAIN = _valued(
    "",
    "explain",
    "only tell what each possible move of this instance would do",
    str,
    "INSTANCE",
    "oneinstance",
)
EXPLAIN_PLACES = Option(
    "", "explain", "only tell what each place of the new instance would do", lambda _old, _argument: ""
)
MAX_LENGTH = _valued(
    "l",
    "max-length",
    "stop after this many steps",
    lambda text: values.whole(text, -MAX_MIB),
    "N",
    "integer",
)
MIN_SCORE = _valued(
    "e",
    "min-score",
    "stop once the score is this close to the best possible",
    values.number,
    "EPSILON",
    "float",
)
MIN_GAIN = _valued(
    "g", "min-gain", "stop when a step would gain less than this", values.number, "DELTA", "float"
)
MIN_GAIN_LIMIT = _valued(
    "", "min-gain-limit", "look at --min-gain only below this score", values.number, "SCORE", "float"
)
MACHINE_READABLE = Option(
    "",
    "machine-readable",
    "print KEY=VALUE lines (yes, the default with the option) or text for people (no)",
    _yes_no,
    Takes.OPTIONAL,
    "CHOICE",
    "choices=yes,no",
)
NO_SIMULATION = _switch("", "no-simulation", "do not try whether rebalancing would help")
FORCE = _switch("f", "force", "go on where a warning would otherwise be an error")
NODE_TAGS = _valued("", "node-tags", "only nodes that have one of these tags", _list, "TAG,...", "string")
OFFLINE_MAINTENANCE = _switch("", "offline-maintenance", "take all instances to be shut down beforehand")
ONE_STEP_ONLY = _switch("", "one-step-only", "only the first group, a node a line")
PRINT_MOVES = _switch("", "print-moves", "list where instances move")
FULL_EVACUATION = _switch("", "full-evacuation", "move secondaries away, too")
SKIP_NON_REDUNDANT = _switch("", "skip-non-redundant", "leave out nodes with instances without secondary")
IGNORE_NON_REDUNDANT = _switch("", "ignore-non-redundant", "take instances without secondary not to be there")
WHAT_IF_LOST = _valued(
    "",
    "what-if-lost",
    "tell what becomes of the instances of this node should it be lost, or of each node (any)",
    str,
    "NODE",
    "onenode",
)

DISK_TEMPLATE = _valued(
    "",
    "disk-template",
    "disk template of the instances; the first that the cluster allows otherwise",
    lambda text: values.choice(text, _TEMPLATES),
    "TEMPLATE",
    f"choices={','.join(_TEMPLATES)}",
)
SPINDLE_USE = _valued(
    "",
    "spindle-use",
    "how many spindles an instance uses, instead of what the cluster's policy says",
    values.whole,
    "SPINDLES",
    "float",
)
INDEPENDENT_GROUPS = _switch(
    "", "independent-groups", "leave out groups that are not N+1, instead of allocating nothing"
)
STANDARD_ALLOC = _valued(
    "",
    "standard-alloc",
    "the standard size: DISK,MEMORY,CPUS[,SPINDLES]",
    _spec("standard"),
    "STDSPEC",
    "string",
)
TIERED_ALLOC = _valued(
    "", "tiered-alloc", "the size to start from in tiered allocation", _spec("tiered"), "TSPEC", "string"
)

HAIL = Program(
    "hail",
    (
        PRINT_NODES,
        SAVE,
        TEXT_DATA,
        SIMULATE,
        VERBOSE,
        DYNU_FILE,
        IGNORE_DYNU,
        IGNORE_SOFT_ERRORS,
        NO_CAPACITY_CHECKS,
        ACCEPT_EXISTING_ERRORS,
        RESTRICT_ALLOCATION_TO,
        EXPLAIN_PLACES,
        MOND,
        MOND_DATA,
        MOND_XEN,
        EXIT_ON_MISSING_MOND_DATA,
        STATIC_KVM_NODE_MEMORY,
    ),
    ("file 1 1",),
)

HSPACE = Program(
    "hspace",
    (
        PRINT_NODES,
        TEXT_DATA,
        DISK_TEMPLATE,
        SPINDLE_USE,
        SIMULATE,
        MASTER,
        LUXI,
        RAPI_CA,
        IALLOC_SRC,
        VERBOSE,
        QUIET,
        INDEPENDENT_GROUPS,
        ACCEPT_EXISTING_ERRORS,
        OFFLINE,
        NO_CAPACITY_CHECKS,
        MACHINE_READABLE,
        JSON,
        MAX_CPU,
        MAX_LENGTH,
        MIN_DISK,
        STANDARD_ALLOC,
        TIERED_ALLOC,
        SAVE,
        STATIC_KVM_NODE_MEMORY,
    ),
)

HSQUEEZE = Program(
    "hsqueeze",
    (
        TEXT_DATA,
        SIMULATE,
        MASTER,
        LUXI,
        RAPI_CA,
        EXEC,
        MINIMAL_RESOURCES,
        TARGET_RESOURCES,
        SAVE,
        PRINT_COMMANDS,
        PRINT_NODES,
        DYNU_FILE,
        IGNORE_DYNU,
        VERBOSE,
        NO_HEADERS,
        JSON,
        STATIC_KVM_NODE_MEMORY,
    ),
)

HSCAN = Program(
    "hscan",
    (PRINT_NODES, OUTPUT_DIR, LUXI, RAPI_CA, VERBOSE, NO_HEADERS, JSON, STATIC_KVM_NODE_MEMORY),
    ("host 0 none",),
)

HINFO = Program(
    "hinfo",
    (
        PRINT_NODES,
        PRINT_INSTANCES,
        TEXT_DATA,
        SIMULATE,
        MASTER,
        LUXI,
        RAPI_CA,
        IALLOC_SRC,
        VERBOSE,
        QUIET,
        OFFLINE,
        DYNU_FILE,
        IGNORE_DYNU,
        MOND,
        MOND_DATA,
        MOND_XEN,
        EXIT_ON_MISSING_MOND_DATA,
        STATIC_KVM_NODE_MEMORY,
        JSON,
    ),
)

HCHECK = Program(
    "hcheck",
    (
        TEXT_DATA,
        SIMULATE,
        MASTER,
        LUXI,
        RAPI_CA,
        IALLOC_SRC,
        NO_DISK_MOVES,
        NO_INSTANCE_MOVES,
        EVAC_MODE,
        DYNU_FILE,
        IGNORE_DYNU,
        SELECT_INSTANCES,
        EXCLUDE_INSTANCES,
        EXCLUSION_TAGS,
        MACHINE_READABLE,
        JSON,
        MAX_CPU,
        MIN_DISK,
        MAX_LENGTH,
        MIN_GAIN,
        MIN_GAIN_LIMIT,
        MIN_SCORE,
        IGNORE_SOFT_ERRORS,
        NO_SIMULATION,
        NO_CAPACITY_CHECKS,
        WHAT_IF_LOST,
        OFFLINE,
        PRINT_NODES,
        PRINT_INSTANCES,
        VERBOSE,
        QUIET,
        STATIC_KVM_NODE_MEMORY,
    ),
)

HROLLER = Program(
    "hroller",
    (
        TEXT_DATA,
        SIMULATE,
        MASTER,
        LUXI,
        RAPI_CA,
        IALLOC_SRC,
        OFFLINE,
        OFFLINE_MAINTENANCE,
        VERBOSE,
        QUIET,
        NO_HEADERS,
        NODE_TAGS,
        SAVE,
        GROUP,
        PRINT_MOVES,
        FULL_EVACUATION,
        SKIP_NON_REDUNDANT,
        IGNORE_NON_REDUNDANT,
        FORCE,
        ONE_STEP_ONLY,
        STATIC_KVM_NODE_MEMORY,
        JSON,
    ),
)

HBAL = Program(
    "hbal",
    (
        PRINT_NODES,
        PRINT_INSTANCES,
        PRINT_COMMANDS,
        TEXT_DATA,
        SIMULATE,
        EVAC_MODE,
        RESTRICTED_MIGRATION,
        MASTER,
        LUXI,
        RAPI_CA,
        IALLOC_SRC,
        EXEC,
        FIRST_JOB_GROUP,
        REASON,
        GROUP,
        MAX_LENGTH,
        VERBOSE,
        QUIET,
        OFFLINE,
        STATIC_KVM_NODE_MEMORY,
        MIN_SCORE,
        MAX_CPU,
        MIN_DISK,
        MIN_GAIN,
        MIN_GAIN_LIMIT,
        NO_DISK_MOVES,
        AVOID_DISK_MOVES,
        SELECT_INSTANCES,
        NO_INSTANCE_MOVES,
        IGNORE_SOFT_ERRORS,
        DYNU_FILE,
        IGNORE_DYNU,
        MOND,
        MOND_DATA,
        MOND_XEN,
        EXIT_ON_MISSING_MOND_DATA,
        EXCLUSION_TAGS,
        EXCLUDE_INSTANCES,
        SAVE,
        PRIORITY,
        EXPLAIN,
        JSON,
    ),
)
