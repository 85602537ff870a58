"""Typed options of plans, from a command line."""

from typing import TYPE_CHECKING

from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.planning.view import View

if TYPE_CHECKING:
    from ganeti_htools.planning.plan import Execution


def view_of(line: CommandLine) -> View:
    return View(
        offline=line.offline,
        exclusion_tags=line.exclusion_tags,
        min_disk=line.min_disk,
        max_cpu=line.max_cpu,
        static_kvm_node_memory=line.static_kvm_node_memory,
        select_instances=line.select_instances,
        exclude_instances=line.exclude_instances,
        move_diskless=line.move_diskless,
        ignore_dynu=line.ignore_dynu,
        load=line.load,
    )


def balancing_of(line: CommandLine) -> BalancingOptions:
    """Take the options of balancing: which moves are allowed, and when to stop."""
    return BalancingOptions(
        disk_moves=not line.no_disk_moves,
        disk_moves_factor=line.avoid_disk_moves,
        long_threshold=line.long_solution_threshold,
        long_factor=line.avoid_long_solutions,
        instance_moves=not line.no_instance_moves,
        restricted_migration=line.restricted_migration,
        evacuation=line.evac_mode,
        ignore_soft_errors=line.ignore_soft_errors,
        min_gain=line.min_gain,
        min_gain_limit=line.min_gain_limit,
        min_score=line.min_score,
        max_length=line.max_length,
    )


def copying_of(line: CommandLine) -> CopyingOptions:
    disks, memory, failover = (*line.price, *[None] * 3)[:3]
    return CopyingOptions(
        price=disks or 0.0,
        price_memory=memory,
        price_failover=failover,
        max_copy=line.max_copy,
        max_moves=line.max_moves,
        max_time=line.max_time,
        bandwidth=line.bandwidth,
        front=line.front,
        pick=line.pick,
        most_even=bool(line.price) and not any(line.price),
    )


def execution_of(line: CommandLine) -> "Execution":
    from ganeti_htools.planning.plan import Execution  # many tools need no plan

    return Execution(line.on_change, line.wait_for_nodes, line.reason, line.priority, line.parallel)
