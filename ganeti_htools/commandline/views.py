"""How a command line has the cluster seen."""

from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.planning.view import View


def view_of(line: CommandLine) -> View:
    """What the options take for offline, keep apart, limit and leave where it is."""
    return View(
        offline=line.offline,
        exclusion_tags=line.exclusion_tags,
        min_disk=line.min_disk,
        max_cpu=line.max_cpu,
        static_kvm_node_memory=line.static_kvm_node_memory,
        select_instances=line.select_instances,
        exclude_instances=line.exclude_instances,
        ignore_dynu=line.ignore_dynu,
    )
