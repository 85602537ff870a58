"""The options of all programs, each declared once; :mod:`.programs` tells which program takes which."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ganeti_htools.backends import units, values
from ganeti_htools.commandline.reading import Option, Takes, switch
from ganeti_htools.model import tags
from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.types import DiskTemplate

_TEMPLATES = {template.value: template for template in DiskTemplate}


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
    """A reader of instance sizes: disk and memory (MiB), CPUs, and spindles, which are 1 unless given."""
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


def _storage_unit(text: str) -> DesiredUnit:
    parts = text.split(",")
    if len(parts) != 2:
        raise DataError(f"expected TYPE,KEY, not {values.shown(text)}")
    return units.named(*parts)


def _disk(text: str) -> tuple[int, DesiredUnit | None]:
    """The size (MiB) of a disk, and the unit that it is on, if that is given."""
    size, _, unit = text.partition(",")
    return values.size(size), _storage_unit(unit) if unit else None


def _demand(text: str) -> tuple[str, int]:
    found = tags.demands([f"{tags.RESOURCE}{text}"])
    if not found:
        raise DataError(f"expected CLASS:AMOUNT such as CUSTOM_GPU:1, not {values.shown(text)}")
    return next(iter(found.items()))


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


def _with_storage(groups: tuple[str, ...], unit: str) -> tuple[str, ...]:
    if not groups:
        raise DataError("expected a --simulate before it")
    return (f"{groups[0]};{unit}", *groups[1:])


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
SIMULATE_STORAGE = Option(
    "",
    "simulate-storage",
    "give the nodes of the last --simulate a storage unit: TYPE,KEY,SIZE; may be repeated",
    _with_storage,
    Takes.ARGUMENT,
    "UNIT",
    "string",
    field="simulate",
    whole=True,
)
VERBOSE = Option("v", "verbose", "say more; may be repeated", lambda old, _argument: old + 1)
DYNU_FILE = _file("U", "dynu-file", "take the instances' dynamic utilisation from this file")
IGNORE_DYNU = switch("", "ignore-dynu", "take all dynamic utilisation to be 0")
IGNORE_SOFT_ERRORS = switch("", "ignore-soft-errors", "disregard restrictions that are not strict")
NO_CAPACITY_CHECKS = switch("", "no-capacity-checks", "do not check the global N+1 redundancy")
ACCEPT_EXISTING_ERRORS = switch(
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
INTER_GROUP = replace(
    switch("", "inter-group", "evacuate nodes into other groups where their own have no room"), whole=True
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
MOND_XEN = switch("", "mond-xen", "with --mond, use what Xen reports of each instance")
EXIT_ON_MISSING_MOND_DATA = switch(
    "", "exit-on-missing-mond-data", "with --mond, stop if dynamic data is incomplete"
)
STATE_OF_RECORD = switch(
    "",
    "state-of-record",
    "take the memory that instances are configured with, not what they run with, from the remote API",
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
ASK_STORAGE = switch("", "ask-storage", "with -L: ask Ganeti for storage units, by jobs")
DAEMON = Option(
    "D",
    "daemon",
    "take the cluster as htoolsd knows it, at the usual socket or at SOCKET",
    lambda _old, path: path,
    Takes.OPTIONAL,
    "SOCKET",
    "file",
)
RAPI_CA = _file("", "rapi-ca", "trust the remote API only by the certificates (PEM) in this file")
OUTPUT_DIR = Option(
    "d", "output-dir", "write files in this directory", lambda _old, path: path, Takes.ARGUMENT, "PATH", "dir"
)
NO_HEADERS = switch("", "no-headers", "leave headers out")
JSON = switch("", "json", "print the report as a JSON document and nothing else")
PRINT_COMMANDS = Option(
    "C",
    "print-commands",
    "print the commands that carry out the plan, or write them to FILE as a shell script",
    lambda _old, path: path or "-",
    Takes.OPTIONAL,
    "FILE",
)
EXEC = switch("X", "exec", "carry the plan out (possible only over LUXI)")
MINIMAL_RESOURCES = _factor(
    "minimal-resources",
    "power nodes up if an online one has less free than this multiple of the standard instance",
)
PREFER = _valued("", "prefer", "power these nodes down first, by name or tag", _list, "NODES", "manynodes")
NEVER = _valued("", "never", "do not power these nodes down, by name or tag", _list, "NODES", "manynodes")
MAX_NODES = _valued("", "max-nodes", "power down at most so many nodes", values.whole, "N", "integer")
STANDBY_DATA = _file("", "standby-data", "take what standby nodes have from this text file, saved before")
TARGET_RESOURCES = _factor(
    "target-resources",
    "power nodes down as long as others keep this multiple of the standard instance free",
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
PRINT_INSTANCES = switch("", "print-instances", "list the instances, too")
GROUP = _valued("G", "group", "only this node group (name or UUID)", str, "ID", "onegroup")
WORST_GROUP = replace(
    switch("", "worst-group", "balance the node group with the worst score that can be improved"), whole=True
)
ALL_GROUPS = replace(
    switch("", "all-groups", "balance all node groups one after the other, the worst score first"), whole=True
)
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
NO_DISK_MOVES = switch("", "no-disk-moves", "only fail over or migrate, which copies no disks")
AVOID_DISK_MOVES = _factor(
    "avoid-disk-moves",
    "copy disks only where this gains more than FACTOR times what moves without copying gain",
)
AVOID_LONG_SOLUTIONS = _factor(
    "avoid-long-solutions",
    "once the plan is long, only steps that divide the score by more than FACTOR times how long it is",
)
LONG_SOLUTION_THRESHOLD = _valued(
    "",
    "long-solution-threshold",
    "the plan is long if it takes so many SECONDS",
    values.whole,
    "SECONDS",
    "integer",
)
OPTIMISE = _valued(
    "",
    "optimise",
    "look for a better plan than the usual one for so many SECONDS",
    values.number,
    "SECONDS",
    "float",
)
NO_INSTANCE_MOVES = switch(
    "", "no-instance-moves", "only change secondary nodes, which does not touch running instances"
)
EVAC_MODE = switch("E", "evac-mode", "only move instances away from offline and drained nodes")
RESTRICTED_MIGRATION = switch(
    "", "restricted-migration", "migrate instances off offline and drained nodes only"
)
FIRST_JOB_GROUP = switch("", "first-job-group", "only commands of the first set of jobs")
NO_WAIT = switch("", "no-wait", "with -D -X, leave the plan to htoolsd once it is begun")
WAIT_FOR_NODES = switch("", "wait-for-nodes", "with -D -X, wait for nodes that are in use but do not report")
REASON = _valued("", "reason", "the reason that jobs carry", str, "REASON", "none")
PRIORITY = _valued(
    "", "priority", "priority of jobs: low, normal or high", _priority, "PRIO", "choices=low,normal,high"
)
ON_CHANGE = _valued(
    "",
    "on-change",
    "where the plan does not fit the cluster any more while it is carried out: replan (the default) or stop",
    lambda text: values.choice(text, {"replan": "replan", "stop": "stop"}),
    "WHAT",
    "choices=replan,stop",
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
    "", "explain", "only tell what each place of the instances would do", lambda _old, _argument: ""
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
NO_SIMULATION = switch("", "no-simulation", "do not try whether rebalancing would help")
FORCE = switch("f", "force", "go on where a warning would otherwise be an error")
NODE_TAGS = _valued("", "node-tags", "only nodes that have one of these tags", _list, "TAG,...", "string")
OFFLINE_MAINTENANCE = switch("", "offline-maintenance", "take all instances to be shut down beforehand")
ONE_STEP_ONLY = switch("", "one-step-only", "only the first group, a node a line")
PRINT_MOVES = switch("", "print-moves", "list where instances move")
FULL_EVACUATION = switch("", "full-evacuation", "move secondaries away, too")
SKIP_NON_REDUNDANT = switch("", "skip-non-redundant", "leave out nodes with instances without secondary")
IGNORE_NON_REDUNDANT = switch("", "ignore-non-redundant", "take instances without secondary not to be there")
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
INDEPENDENT_GROUPS = switch(
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
STORAGE = replace(switch("", "storage", "show the storage units of the nodes, and the pools"), whole=True)
STORAGE_UNIT = _valued(
    "",
    "storage-unit",
    "the storage unit or pool that the disks are on, instead of the default one: TYPE,KEY",
    _storage_unit,
    "UNIT",
    "string",
)
DISK = Option(
    "",
    "disk",
    "a disk of the standard size, instead of the only one: SIZE[,TYPE,KEY]; may be repeated",
    lambda old, text: (*old, _disk(text)),
    Takes.ARGUMENT,
    "DISK",
    "string",
    whole=True,
)
RESOURCE = Option(
    "",
    "resource",
    "what an instance demands of a custom resource class: CLASS:AMOUNT; may be repeated",
    lambda old, text: (*old, _demand(text)),
    Takes.ARGUMENT,
    "DEMAND",
    "string",
    whole=True,
)
TIERED_ALLOC = _valued(
    "", "tiered-alloc", "the size to start from in tiered allocation", _spec("tiered"), "TSPEC", "string"
)

AMONG = Option(
    "G",
    "among",
    "only this node group and others named so give and take instances; may be repeated",
    lambda old, name: (*old, name),
    Takes.ARGUMENT,
    "GROUP",
    "onegroup",
)
EMPTY = _valued("", "group", "the node group to be emptied", str, "GROUP", "onegroup")
GROUPS = _valued("", "groups", "empty so many node groups", values.whole, "N", "integer")
RESERVE = _factor("reserve", "so many standard instances stay free in each node group that is left")
ALLOW_PLAIN = switch(
    "", "allow-plain", "also move instances that have to be stopped while their disks are copied"
)
ALLOW_DRBD = switch("", "allow-drbd", "also with mirrored instances, whose disks are copied")
ALLOW_ALL = switch(
    "", "allow-all", "also with mirrored, plain and file instances; the latter are stopped and copied"
)
MAX_MOVES = _valued("", "max-moves", "move at most so many instances", values.whole, "N", "integer")
MAX_COPY = _valued("", "max-copy", "copy at most so much of disks and memory", values.size, "MIB", "integer")
