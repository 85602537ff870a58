"""``-S``: clusters written to files in the text format."""

from collections.abc import Callable

from ganeti_htools.cli.terminal.saying import say
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.files import write_text
from ganeti_htools.model.cluster import Cluster


def save(line: CommandLine, extension: str, when: str, cluster: Callable[[], Cluster]) -> None:
    """Write a cluster to the file that ``-S`` and the extension name, if ``-S`` is given, and say so.

    ``cluster`` makes it, ``when`` is like "before balancing". Raises HtoolsError.
    """
    if line.save is None:
        return
    from ganeti_htools.backends import text  # seldom needed

    path = f"{line.save}.{extension}"
    write_text(path, text.dump(cluster()))
    say(f"The cluster state {when} has been written to file '{path}'\n")
