"""What a command line asks of a plan."""

from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.planning.plan import Execution


def balancing_of(line: CommandLine) -> BalancingOptions:
    """The options of balancing: which moves are allowed, and when to stop."""
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


def execution_of(line: CommandLine) -> Execution:
    """The options with which a plan is carried out."""
    return Execution(line.on_change, line.wait_for_nodes, line.reason, line.priority)
