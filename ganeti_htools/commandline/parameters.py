"""Options of decisions, from a command line or from Ganeti's iallocator parameters."""

from collections.abc import Sequence

from ganeti_htools.commandline.line import LOCAL, CommandLine
from ganeti_htools.commandline.programs import HAIL
from ganeti_htools.commandline.reading import Reply, read
from ganeti_htools.model.errors import UsageError
from ganeti_htools.model.options import PlacementOptions

# Options that change what a program prints or writes.
OUTPUT = ("explain", "json", "make_room", "max_copy", "max_moves", "print_nodes", "save", "verbose")


def placement_options(line: CommandLine) -> PlacementOptions:
    return PlacementOptions(
        capacity=not line.no_capacity_checks,
        accept_existing=line.accept_existing_errors,
        ignore_soft_errors=line.ignore_soft_errors,
        restrict_to=line.restrict_allocation_to,
        static_kvm_node_memory=line.static_kvm_node_memory,
        inter_group=line.inter_group,
        ganeti_version=line.ganeti_version,
    )


def parse_options(arguments: Sequence[str]) -> PlacementOptions:
    """Read the options of a decision from iallocator parameters. Raises UsageError for any other option."""
    line = read(HAIL, arguments)
    if isinstance(line, Reply):
        raise UsageError(_first_line(line.text) if line.status else "expected parameters only")
    for name in line.given:
        if name in OUTPUT or name in LOCAL:
            raise UsageError(f"--{name.replace('_', '-')} is for the hail program itself")
    if line.arguments:
        raise UsageError(f"unexpected argument '{line.arguments[0]}'")
    return placement_options(line)


def _first_line(text: str) -> str:
    """Shorten an error message to one line. A heading that ends with a colon gets the next line."""
    first, *others = text.splitlines()
    return f"{first} {others[0].strip()}" if first.endswith(":") and others else first
