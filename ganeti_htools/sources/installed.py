"""The Ganeti that is installed on this machine."""

import re
from dataclasses import replace
from pathlib import Path

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.ganeti_version import GanetiVersion, reported_version

# Ganeti's packages have a link to the shared files of the version in use.
CONSTANTS = Path("/etc/ganeti/share/ganeti/_constants.py")
_AT_THE_TOP = 16384  # characters


def installed_version() -> GanetiVersion | None:
    """Return the version of the installed Ganeti, None if there is none."""
    try:
        with CONSTANTS.open(encoding="utf-8", errors="replace") as file:
            found = re.search(r'^RELEASE_VERSION = "([^"]+)"', file.read(_AT_THE_TOP), re.MULTILINE)
    except OSError:
        return None
    return reported_version(found[1]) if found else None


def with_version(cluster: Cluster, version: GanetiVersion | None) -> Cluster:
    """Return the cluster with its own version of Ganeti, or else this one, or else the installed one."""
    return cluster if cluster.ganeti else replace(cluster, ganeti=version or installed_version())
