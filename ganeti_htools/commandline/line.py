"""A command line as it was given: a value for each option."""

from typing import Literal, NamedTuple

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
