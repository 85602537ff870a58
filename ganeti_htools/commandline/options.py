"""The options of all programs, each declared once; :mod:`.programs` tells which program takes which."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ganeti_htools.backends import values
from ganeti_htools.commandline import arguments
from ganeti_htools.commandline.option import Option, Takes, switch
from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.types import DiskTemplate


def _valued(
    short: str, long: str, text: str, read: Callable[[str], Any], metavar: str, completion: str
) -> Option:
    """An option whose value is what its argument says."""
    return Option(
        short, long, text, lambda _old, argument: read(argument), Takes.ARGUMENT, metavar, completion
    )


def _file(short: str, long: str, text: str, completion: str = "file") -> Option:
    return _valued(short, long, text, str, "FILE", completion)


def _whole(long: str, text: str, metavar: str = "N") -> Option:
    return _valued("", long, text, values.whole, metavar, "integer")


def _number(short: str, long: str, text: str, metavar: str) -> Option:
    return _valued(short, long, text, values.number, metavar, "float")


def _names(long: str, text: str, metavar: str, completion: str) -> Option:
    return _valued("", long, text, arguments.names, metavar, completion)


def _repeated(
    short: str,
    long: str,
    text: str,
    read: Callable[[str], Any],
    metavar: str,
    completion: str,
    in_full: bool = False,
) -> Option:
    """An option whose value is what its arguments say, each time that it is given."""
    once = _valued(short, long, text, read, metavar, completion)
    return replace(once, update=lambda old, argument: (*old, read(argument)), in_full=in_full)


def _optional(
    short: str, long: str, text: str, read: Callable[[str], Any], metavar: str, completion: str = "none"
) -> Option:
    """An option whose argument may be left out; it is empty then."""
    return replace(_valued(short, long, text, read, metavar, completion), takes=Takes.OPTIONAL)


def _yes_no(long: str, text: str) -> Option:
    return _optional("", long, text, arguments.yes_no, "CHOICE", "choices=yes,no")


def _with_storage(groups: tuple[str, ...], unit: str) -> tuple[str, ...]:
    if not groups:
        raise DataError("expected a --simulate before it")
    return (f"{groups[0]};{unit}", *groups[1:])


PRINT_NODES = _optional(
    "p",
    "print-nodes",
    "list the nodes before and after; only these FIELDS, or with +FIELDS these too",
    arguments.fields,
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
    in_full=True,
)
VERBOSE = Option("v", "verbose", "say more; may be repeated", lambda old, _argument: old + 1)
DYNU_FILE = _file("U", "dynu-file", "take the instances' dynamic utilisation from this file")
IGNORE_DYNU = switch("", "ignore-dynu", "take all dynamic utilisation to be 0")
IGNORE_SOFT_ERRORS = switch("", "ignore-soft-errors", "disregard restrictions that are not strict")
NO_CAPACITY_CHECKS = switch("", "no-capacity-checks", "do not check the global N+1 redundancy")
ACCEPT_EXISTING_ERRORS = switch(
    "", "accept-existing-errors", "tolerate N+1 violations that are there already, but no new ones"
)
RESTRICT_ALLOCATION_TO = _names(
    "restrict-allocation-to", "allocate on these nodes only", "NODE,...", "manynodes"
)
INTER_GROUP = switch(
    "", "inter-group", "evacuate nodes into other groups where their own have no room", in_full=True
)
MOND = _yes_no("mond", "ask all monitoring daemons for dynamic data (yes) or none (no)")
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
STATIC_KVM_NODE_MEMORY = _whole(
    "static-kvm-node-memory",
    "memory that KVM nodes use themselves (MiB), instead of what they report; 0 to trust the report",
)

MASTER = _valued(
    "m",
    "master",
    "take the cluster from the remote API at this address, or from the directory in file://PATH",
    str,
    "ADDRESS",
    "host",
)
LUXI = _optional(
    "L",
    "luxi",
    "take the cluster from Ganeti on this machine, at the usual socket or at SOCKET",
    str,
    "SOCKET",
    "file",
)
ASK_STORAGE = switch("", "ask-storage", "with -L: ask Ganeti for storage units, by jobs")
DAEMON = _optional(
    "D",
    "daemon",
    "take the cluster as htoolsd knows it, at the usual socket or at SOCKET",
    str,
    "SOCKET",
    "file",
)
RAPI_CA = _file("", "rapi-ca", "trust the remote API only by the certificates (PEM) in this file")
OUTPUT_DIR = _valued("d", "output-dir", "write files in this directory", str, "PATH", "dir")
NO_HEADERS = switch("", "no-headers", "leave headers out")
JSON = switch("", "json", "print the report as a JSON document and nothing else")
PRINT_COMMANDS = _optional(
    "C",
    "print-commands",
    "print the commands that carry out the plan, or write them to FILE as a shell script",
    lambda path: path or "-",
    "FILE",
)
EXEC = switch("X", "exec", "carry the plan out (possible only over LUXI)")
MINIMAL_RESOURCES = _number(
    "",
    "minimal-resources",
    "power nodes up if an online one has less free than this multiple of the standard instance",
    "FACTOR",
)
PREFER = _names("prefer", "power these nodes down first, by name or tag", "NODES", "manynodes")
NEVER = _names("never", "do not power these nodes down, by name or tag", "NODES", "manynodes")
MAX_NODES = _whole("max-nodes", "power down at most so many nodes")
STANDBY_DATA = _file("", "standby-data", "take what standby nodes have from this text file, saved before")
TARGET_RESOURCES = _number(
    "",
    "target-resources",
    "power nodes down as long as others keep this multiple of the standard instance free",
    "FACTOR",
)

QUIET = Option("q", "quiet", "say less", lambda old, _argument: old - 1, field="verbose")
IALLOC_SRC = _file("I", "ialloc-src", "take the cluster from this iallocator request")
OFFLINE = _repeated("O", "offline", "take this node for offline; may be repeated", str, "NODE", "onenode")
MAX_CPU = _valued(
    "",
    "max-cpu",
    "virtual CPUs that a node may have for each of its CPUs, instead of what the group's policy says",
    arguments.ratio,
    "RATIO",
    "float",
)
MIN_DISK = _number("", "min-disk", "part of a node's disk that has to stay free, from 0 to 1", "RATIO")
PRINT_INSTANCES = switch("", "print-instances", "list the instances, too")
GROUP = _valued("G", "group", "only this node group (name or UUID)", str, "ID", "onegroup")
WORST_GROUP = switch(
    "", "worst-group", "balance the node group with the worst score that can be improved", in_full=True
)
ALL_GROUPS = switch(
    "", "all-groups", "balance all node groups one after the other, the worst score first", in_full=True
)
EXCLUSION_TAGS = _names(
    "exclusion-tags", "keep instances apart that share a tag with one of these prefixes", "TAG,...", "string"
)
SELECT_INSTANCES = _names("select-instances", "only move these instances", "INSTS", "manyinstances")
EXCLUDE_INSTANCES = _names("exclude-instances", "do not move these instances", "INSTS", "manyinstances")
NO_DISK_MOVES = switch("", "no-disk-moves", "only fail over or migrate, which copies no disks")
AVOID_DISK_MOVES = _number(
    "",
    "avoid-disk-moves",
    "copy disks only where this gains more than FACTOR times what moves without copying gain",
    "FACTOR",
)
AVOID_LONG_SOLUTIONS = _number(
    "",
    "avoid-long-solutions",
    "once the plan is long, only steps that divide the score by more than FACTOR times how long it is",
    "FACTOR",
)
LONG_SOLUTION_THRESHOLD = _whole(
    "long-solution-threshold", "the plan is long if it takes so many SECONDS", "SECONDS"
)
OPTIMISE = _number("", "optimise", "look for a better plan than the usual one for so many SECONDS", "SECONDS")
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
    "",
    "priority",
    "priority of jobs: low, normal or high",
    arguments.priority,
    "PRIO",
    "choices=low,normal,high",
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
    "l", "max-length", "stop after this many steps", lambda text: values.whole(text, -MAX_MIB), "N", "integer"
)
MIN_SCORE = _number("e", "min-score", "stop once the score is this close to the best possible", "EPSILON")
MIN_GAIN = _number("g", "min-gain", "stop when a step would gain less than this", "DELTA")
MIN_GAIN_LIMIT = _number("", "min-gain-limit", "look at --min-gain only below this score", "SCORE")
MACHINE_READABLE = _yes_no(
    "machine-readable", "print KEY=VALUE lines (yes, the default with the option) or text for people (no)"
)
NO_SIMULATION = switch("", "no-simulation", "do not try whether rebalancing would help")
FORCE = switch("f", "force", "go on where a warning would otherwise be an error")
NODE_TAGS = _names("node-tags", "only nodes that have one of these tags", "TAG,...", "string")
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
    lambda text: values.member(text, DiskTemplate),
    "TEMPLATE",
    f"choices={','.join(template.value for template in DiskTemplate)}",
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
    arguments.spec("standard"),
    "STDSPEC",
    "string",
)
STORAGE = switch("", "storage", "show the storage units of the nodes, and the pools", in_full=True)
STORAGE_UNIT = _valued(
    "",
    "storage-unit",
    "the storage unit or pool that the disks are on, instead of the default one: TYPE,KEY",
    arguments.storage_unit,
    "UNIT",
    "string",
)
DISK = _repeated(
    "",
    "disk",
    "a disk of the standard size, instead of the only one: SIZE[,TYPE,KEY]; may be repeated",
    arguments.disk,
    "DISK",
    "string",
    in_full=True,
)
RESOURCE = _repeated(
    "",
    "resource",
    "what an instance demands of a custom resource class: CLASS:AMOUNT; may be repeated",
    arguments.demand,
    "DEMAND",
    "string",
    in_full=True,
)
TIERED_ALLOC = _valued(
    "",
    "tiered-alloc",
    "the size to start from in tiered allocation",
    arguments.spec("tiered"),
    "TSPEC",
    "string",
)

AMONG = _repeated(
    "G",
    "among",
    "only this node group and others named so give and take instances; may be repeated",
    str,
    "GROUP",
    "onegroup",
)
EMPTY = _valued("", "group", "the node group to be emptied", str, "GROUP", "onegroup")
GROUPS = _whole("groups", "empty so many node groups")
RESERVE = _number(
    "", "reserve", "so many standard instances stay free in each node group that is left", "FACTOR"
)
ALLOW_PLAIN = switch(
    "", "allow-plain", "also move instances that have to be stopped while their disks are copied"
)
ALLOW_DRBD = switch("", "allow-drbd", "also with mirrored instances, whose disks are copied")
ALLOW_ALL = switch(
    "", "allow-all", "also with mirrored, plain and file instances; the latter are stopped and copied"
)
MAX_MOVES = _whole("max-moves", "move at most so many instances")
MAX_COPY = _valued("", "max-copy", "copy at most so much of disks and memory", values.size, "MIB", "integer")
