"""The options of all tools, each declared once; :mod:`.programs` lists the options of each tool."""

from typing import Any, Literal, NamedTuple

from ganeti_htools.commandline import kinds
from ganeti_htools.commandline.option import Heading, Kind, Option, Takes, Values, repeated, switch, value
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.load import LoadMode

_NO_NAMES: tuple[str, ...] = ()
_NO_SIZE: tuple[int, ...] = ()
_NO_PRICES: tuple[float, ...] = ()


def _with_storage(groups: tuple[str, ...], unit: str) -> tuple[str, ...]:
    if not groups:
        raise DataError("expected a --simulate before it")
    return (f"{groups[0]};{unit}", *groups[1:])


class CommandLine(Values):
    """A command line of a tool: a value for each option, and all other arguments."""

    read = Heading("Source of the cluster")
    # ``simulate`` has the last group first, as Ganeti's tools number groups.
    # Each group has the storage units that follow it.
    text_data = value(kinds.FILE, None, "read the cluster from this text file", "t", local=True)
    simulate = Option(
        _NO_NAMES,
        lambda groups, group: (group, *groups),
        "simulate an empty node group (may be repeated): POLICY,NODES,DISK,MEMORY,CPUS[,SPINDLES]",
        takes=Takes.ARGUMENT,
        metavar="SPEC",
        completion="string",
        local=True,
    )
    simulate_storage = Option(
        _NO_NAMES,
        _with_storage,
        "give the nodes of the last --simulate a storage unit (may be repeated): TYPE,KEY,SIZE",
        takes=Takes.ARGUMENT,
        metavar="UNIT",
        completion="string",
        field="simulate",
    )
    ialloc_src = value(kinds.FILE, None, "read the cluster from this iallocator request", "I", local=True)
    master = value(
        kinds.HOST, "", "read the cluster from the remote API at ADDRESS, or from files in file://PATH", "m"
    )
    rapi_ca = value(kinds.FILE, None, "trust only the certificates (PEM) in this file for the remote API")
    rapi_credentials = value(
        kinds.FILE, None, "take user and password for the remote API from this file (netrc)"
    )
    state_of_record = switch(
        "with -m, use the configured memory of instances, not the memory that they run with"
    )
    luxi = value(
        kinds.FILE,
        None,
        "read the cluster from luxid, at SOCKET or the usual one",
        "L",
        metavar="SOCKET",
        takes=Takes.OPTIONAL,
    )
    ask_storage = switch("with -L, ask the nodes for their storage units, by jobs")
    daemon = value(
        kinds.FILE,
        None,
        "read the cluster from htoolsd, at SOCKET or the usual one",
        "D",
        metavar="SOCKET",
        takes=Takes.OPTIONAL,
    )
    standby_data = value(kinds.FILE, None, "read the size of standby nodes from this text file", local=True)

    loads = Heading("Load of instances")
    dynu_file = value(kinds.FILE, None, "read the utilisation of instances from this file", "U", local=True)
    ignore_dynu = switch("take all dynamic utilisation as 0")
    load: Option[LoadMode] = value(
        kinds.LOAD, "none", "with -D, balance the measured load: real, upstream (as -U) or none"
    )
    mond = value(
        kinds.CHOICE,
        False,
        "ask all monitoring daemons for dynamic data (yes) or none (no)",
        local=True,
        takes=Takes.OPTIONAL,
    )
    mond_data = value(
        kinds.FILE, None, "with --mond, read this file instead of asking the monitoring daemons", local=True
    )
    mond_xen = switch("with --mond, use Xen's figures of each instance")
    exit_on_missing_mond_data = switch("with --mond, stop if dynamic data is incomplete")

    view = Heading("View of the cluster")
    offline = repeated(kinds.NODE, "take this node as offline; may be repeated", "O")
    static_kvm_node_memory = value(
        kinds.SIZE, 4096, "memory that KVM nodes need for themselves; 0 to use the nodes' figure"
    )
    ganeti_version = value(
        kinds.VERSION, None, "apply the rules of this version of Ganeti, unless the cluster's is known"
    )
    max_cpu = value(
        kinds.RATIO, None, "most virtual CPUs per CPU of a node, instead of the ratio of the group's policy"
    )
    min_disk = value(
        kinds.NUMBER, 0.0, "keep this part of each node's disk free, from 0 to 1", metavar="RATIO"
    )
    exclusion_tags = value(
        kinds.TAGS, _NO_NAMES, "keep instances apart that share a tag with one of these prefixes"
    )
    select_instances = value(kinds.INSTANCES, _NO_NAMES, "move only these instances")
    exclude_instances = value(kinds.INSTANCES, _NO_NAMES, "do not move these instances")

    reports = Heading("Reports")
    print_nodes = value(
        kinds.FIELDS,
        None,
        "list the nodes before and after: FIELDS, or +FIELDS besides the usual fields",
        "p",
        takes=Takes.OPTIONAL,
    )
    print_instances = switch("list the instances")
    print_moves = switch("list the moves of instances")
    print_commands = value(
        Kind(lambda path: path or "-", "FILE", "none"),
        None,
        "print the commands of the plan, or write them to FILE as a shell script",
        "C",
        takes=Takes.OPTIONAL,
    )
    first_job_group = switch("only the commands of the first jobset")
    explain = value(kinds.INSTANCE, None, "only explain what each possible move of this instance would do")
    explain_places = Option[str | None](
        None,
        lambda _old, _argument: "",
        "only explain each possible place of the instances",
        long="explain",
        field="explain",
    )
    storage = switch("show the storage units of the nodes, and the pools")
    what_if_lost = value(
        kinds.NODE, None, "show what happens to instances if this node fails, or each node (any)"
    )
    losses = switch(
        "show for each node how full the others are after its loss, and which instances do not come back"
    )
    plan = value(kinds.FILE, None, "judge the plan in this file, which --json of a tool has printed")
    rules = switch("find rules of tags that contradict each other or that no placement satisfies")
    verbose = Option(1, lambda old, _argument: old + 1, "print more; may be repeated", "v")
    quiet = Option(1, lambda old, _argument: old - 1, "print less; may be repeated", "q", field="verbose")
    no_headers = switch("print no headers")
    one_step_only = switch("print only the first group, one node a line")
    machine_readable = value(
        kinds.CHOICE,
        False,
        "print KEY=VALUE lines (yes, also without CHOICE) or text for people (no)",
        takes=Takes.OPTIONAL,
    )
    json = switch("print only the report, as a JSON document")
    wide = switch("do not fit reports to the terminal")
    html = value(kinds.FILE, None, "also write the report to this file, as a page for a browser")
    save = value(Kind(str, "FILE", "none"), None, "save the cluster before and after to FILE.*", "S")
    output_dir = value(kinds.DIRECTORY, ".", "write files to this directory", "d")
    anonymise = switch("replace all names; decisions and plans stay the same")

    placements = Heading("Placements")
    ignore_soft_errors = switch("ignore the limits that are not strict")
    no_capacity_checks = switch("do not check global N+1 redundancy")
    accept_existing_errors = switch("accept N+1 failures that exist already, but no new ones")
    restrict_allocation_to = value(kinds.NODES, None, "allocate only on these nodes", metavar="NODE,...")
    inter_group = switch("evacuate to other groups what finds no node in its own")

    make_room = switch("only show the fewest moves after which a new instance has a place")

    sizes = Heading("New instances")
    disk_template = value(
        kinds.TEMPLATE, None, "disk template of the instances (default: the first that the cluster allows)"
    )
    storage_unit = value(kinds.STORAGE_UNIT, None, "put the disks on this storage unit or pool: TYPE,KEY")
    disk = repeated(kinds.DISK, "add a disk to the standard size: SIZE[,TYPE,KEY]; may be repeated")
    resource = repeated(
        kinds.DEMAND, "instances take this of a custom resource class: CLASS:AMOUNT; may be repeated"
    )
    spindle_use = value(
        kinds.COUNT,
        None,
        "spindles of an instance, whatever the cluster's policy is",
        metavar="SPINDLES",
        completion="float",
    )
    independent_groups = switch("skip groups that are not N+1, instead of allocating nothing")
    standard_alloc = value(kinds.STANDARD_SIZE, _NO_SIZE, "the standard size: DISK,MEMORY,CPUS[,SPINDLES]")
    tiered_alloc = value(kinds.TIERED_SIZE, _NO_SIZE, "begin tiered allocation at this size")

    plans = Heading("Carrying out the plan")
    exec = switch("carry out the plan (only with -L or -D)", "X")
    on_change: Option[Literal["replan", "stop"]] = value(
        kinds.REACTION, "replan", "if the plan no longer fits the cluster: replan (the default) or stop"
    )
    no_wait = switch("with -D -X, leave the plan to htoolsd once it has begun")
    wait_for_nodes = switch("with -D -X, wait for nodes that are in use but do not report")
    parallel = value(kinds.COUNT, 0, "have at most N unfinished jobs; 0: no limit")
    reason = value(Kind(str, "REASON", "none"), None, "give jobs this reason")
    priority = value(kinds.PRIORITY, None, "give jobs this priority: low, normal or high")

    limits = Heading("Limits of the plan")
    max_moves = value(kinds.COUNT, -1, "make at most N moves")
    max_copy = value(kinds.BINARY_SIZE, -1, "copy at most SIZE of disks and memory")
    max_time = value(kinds.DURATION, -1.0, "copy for at most this time", metavar="DURATION")

    balancing = Heading("Balancing")
    group = value(Kind(str, "ID", "onegroup"), None, "only this node group (name or UUID)", "G")
    worst_group = switch("balance the node group with the worst score that can be improved")
    all_groups = switch("balance all node groups in turn, the worst score first")
    max_length = value(kinds.STEPS, -1, "stop after N steps", "l")
    min_score = value(
        kinds.NUMBER, 1e-9, "stop when the score is this close to the best possible", "e", metavar="EPSILON"
    )
    min_gain = value(kinds.NUMBER, 1e-2, "stop when a step gains less than DELTA", "g", metavar="DELTA")
    min_gain_limit = value(kinds.NUMBER, 1e-1, "ignore --min-gain above this score", metavar="SCORE")
    no_disk_moves = switch("only fail over or migrate: copy no disks")
    avoid_disk_moves = value(
        kinds.NUMBER,
        None,
        "copy disks only if that gains FACTOR times as much as the best step without a copy",
    )
    avoid_long_solutions = value(
        kinds.NUMBER, 0.0, "leave out steps that gain too little for their duration, once the plan is long"
    )
    long_solution_threshold = value(kinds.DURATION, 1000.0, "a plan is long from this duration on")
    repair_rules = switch("only make moves that repair broken rules of tags")
    optimise = value(kinds.DURATION, 0.0, "look for a better plan for this time")
    price = value(kinds.PRICES, _NO_PRICES, "points of the score that copying a TiB must gain")
    bandwidth = value(kinds.BANDWIDTH, None, "Mbit/s between nodes without htools:bandwidth tags")
    front = value(kinds.PLANS, 0, "show up to N plans, from cheap to even", takes=Takes.OPTIONAL)
    pick = value(kinds.PLAN, 0, "make plan K of --front")
    witness = value(
        kinds.PROGRAM, None, "also plan with Ganeti's own hbal, and show both plans", takes=Takes.OPTIONAL
    )
    no_instance_moves = switch("only change secondary nodes, which does not touch running instances")
    move_diskless = switch("also move diskless instances")
    evac_mode = switch("only move instances off offline and drained nodes", "E")
    restricted_migration = switch("migrate only off offline and drained nodes")
    no_simulation = switch("do not try whether balancing would help")

    power = Heading("Powering nodes down and up")
    minimal_resources = value(
        kinds.NUMBER, None, "power nodes up if an online node has less free than FACTOR standard instances"
    )
    target_resources = value(
        kinds.NUMBER, None, "power nodes down while all others keep FACTOR standard instances free"
    )
    prefer = value(kinds.NODES, _NO_NAMES, "power down these nodes first (names or tags)")
    never = value(kinds.NODES, _NO_NAMES, "do not power down these nodes (names or tags)")
    max_nodes = value(kinds.COUNT, -1, "power down at most N nodes")
    allow_drbd = switch("also move mirrored instances, whose disks are copied")
    allow_all = switch("also move mirrored, plain and file instances; plain and file instances are stopped")

    regrouping = Heading("Moves between node groups")
    among = repeated(kinds.GROUP, "move only between the groups of this option; may be repeated", "G")
    empty_group = Option[str | None](
        None,
        lambda _old, group: group,
        "empty this node group",
        takes=Takes.ARGUMENT,
        metavar="GROUP",
        completion="onegroup",
        long="group",
        field="group",
    )
    groups = value(kinds.COUNT, 1, "empty N node groups")
    reserve = value(kinds.NUMBER, 0.0, "keep FACTOR standard instances free in each group that stays in use")
    partial = switch("if a group cannot be repaired completely, make the possible moves")
    allow_plain = switch("also move plain and file instances, which are stopped while their disks are copied")

    reboots = Heading("Reboots")
    node_tags = value(kinds.TAGS, None, "only nodes that have one of these tags")
    offline_maintenance = switch("assume that all instances are shut down")
    full_evacuation = switch("also move secondaries away")
    skip_non_redundant = switch("skip nodes with instances without a secondary")
    ignore_non_redundant = switch("ignore instances without a secondary")
    force = switch("continue with a warning instead of an error", "f")

    repairs = Heading("Repairs")
    job_delay = value(
        kinds.NUMBER,
        10.0,
        "time that the job of a repair waits first, while its record is written",
        metavar="SECONDS",
    )
    dry_run = switch("only show what would be done")
    migrate_drained = switch("migrate instances off drained nodes; without it, drained nodes count as failed")
    shared = switch("also repair instances on shared storage")

    maintenance = Heading("Maintenance")
    empty = switch("also copy disks: secondaries leave the nodes too")
    keep_candidate = switch("do not drain the nodes: master candidates stay candidates")
    set_offline = switch("set the emptied nodes offline, so that Ganeti does without them")
    no_return = switch("do not bring instances home")
    balance = switch("do not bring instances home, but balance the groups of the nodes")
    take_over = switch("continue a run that was interrupted")
    command = value(kinds.PROGRAM, None, "run this program for each batch, with the names of its nodes")
    pause = switch("wait for Enter or SIGUSR1 before each batch ends")
    rebooted = switch("wait until the nodes of a batch have booted anew")
    hours = value(kinds.HOURS, None, "begin batches only at these local times, like 22-6")
    anew = switch("forget what an earlier roll has done")
    master_failover = switch("first make this machine the master, unless it is")

    about = Heading("About the program")
    version = switch("show the version", "V")
    help = switch("show this help", "h")
    help_completion = switch("show what shell completion needs")


class Program(NamedTuple):
    """A program: what it does, its options, and its arguments as ``--help-completion`` describes them.

    ``actions`` are the words of which the program needs one, each with its meaning. ``added`` are options
    that Ganeti's program lacks. They do not change what an abbreviation means there.
    """

    name: str
    summary: str
    options: tuple[Option[Any], ...]
    arguments: tuple[str, ...] = ()
    actions: tuple[tuple[str, str], ...] = ()
    added: tuple[Option[Any], ...] = ()

    @property
    def all_options(self) -> tuple[Option[Any], ...]:
        """Its own options, those added, and those of every program."""
        common = CommandLine.version, CommandLine.help, CommandLine.help_completion
        return (*self.options, *self.added, *common)

    def named(self, name: str) -> list[Option[Any]]:
        """Return the option of this long name, or the options that it abbreviates, if possible Ganeti's."""
        options = [option for option in self.all_options if option.long.startswith(name)]
        return (
            [option for option in options if option.long == name]
            or [option for option in options if option not in self.added]
            or options
        )


LOCAL = frozenset(
    option.field for option in vars(CommandLine).values() if isinstance(option, Option) and option.local
)
