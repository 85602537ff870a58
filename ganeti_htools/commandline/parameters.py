"""The options that steer decisions, from a command line or from Ganeti's iallocator parameters."""

from collections.abc import Sequence

from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.programs import HAIL
from ganeti_htools.commandline.reading import Reply, read
from ganeti_htools.model.errors import UsageError
from ganeti_htools.model.options import PlacementOptions

# What a program that only decides can do nothing with: these read or write files, or print more.
ONE_SHOT = (
    "explain",
    "json",
    "dynu_file",
    "mond",
    "mond_data",
    "print_nodes",
    "save",
    "simulate",
    "text_data",
    "verbose",
)


def algorithm(line: CommandLine) -> PlacementOptions:
    """The options of a decision that a command line gives."""
    return PlacementOptions(
        capacity=not line.no_capacity_checks,
        accept_existing=line.accept_existing_errors,
        ignore_soft_errors=line.ignore_soft_errors,
        restrict_to=line.restrict_allocation_to,
        static_kvm_node_memory=line.static_kvm_node_memory,
        inter_group=line.inter_group,
    )


def parse_options(arguments: Sequence[str]) -> PlacementOptions:
    """The options of a decision that iallocator parameters give. Raises UsageError for any other option."""
    line = read(HAIL, arguments)
    if isinstance(line, Reply):
        raise UsageError(_wrong(line.text) if line.status else "expected parameters only")
    defaults = CommandLine._field_defaults
    for name in ONE_SHOT:
        if getattr(line, name) != defaults[name]:
            raise UsageError(f"--{name.replace('_', '-')} is for the hail program itself")
    if line.arguments:
        raise UsageError(f"unexpected argument '{line.arguments[0]}'")
    return algorithm(line)


def _wrong(text: str) -> str:
    """What is wrong with a command line, as one line. A heading ending with a colon gets the next line."""
    first, *others = text.splitlines()
    return f"{first} {others[0].strip()}" if first.endswith(":") and others else first
