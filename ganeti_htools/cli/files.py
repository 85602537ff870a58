"""Names that have moved, until nothing imports them from here."""

from collections.abc import Mapping

from ganeti_htools.cli import clusters
from ganeti_htools.cli.clusters import load as load
from ganeti_htools.cli.clusters import save as save
from ganeti_htools.cli.clusters import with_load as with_dynamics
from ganeti_htools.cli.terminal.saying import progress as progress
from ganeti_htools.cli.terminal.saying import say as say
from ganeti_htools.cli.terminal.saying import warn as warn
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.files import read_bytes as read_bytes
from ganeti_htools.files import read_text as read_text
from ganeti_htools.files import write_text as write_text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import inconsistencies as inconsistencies
from ganeti_htools.sources.source import unheard as unheard

__all__ = ["with_dynamics"]


def load_dated(line: CommandLine) -> tuple[Cluster, Mapping[str, int] | None]:
    """The cluster, and its generations."""
    reading = clusters.load_dated(line)
    return reading.cluster, reading.generations
