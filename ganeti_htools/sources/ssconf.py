"""Ganeti's ssconf files: what each node knows of its cluster without asking anybody."""

import errno
import os
import socket
from contextlib import suppress
from dataclasses import dataclass

from ganeti_htools.files import read_regular_file

_DEFAULT_DIRECTORY = "/var/lib/ganeti"
_LONGEST = 4096  # bytes of a file with one name
_MANY = 1 << 20  # bytes of a file with one name a line


@dataclass(frozen=True, slots=True)
class Ssconf:
    """Ganeti's ``ssconf_*`` files in ``directory``, and the ``name`` of this node."""

    name: str
    directory: str

    @property
    def configuration(self) -> str:
        """The path of Ganeti's configuration, which master candidates have."""
        return os.path.join(self.directory, "config.data")

    def master(self) -> str | None:
        """Return the master node's name, None without Ganeti. Raises OSError."""
        path = os.path.join(self.directory, "ssconf_master_node")
        try:
            name = read_regular_file(path, _LONGEST).decode().strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError:
            name = ""
        if not name.isprintable() or len(name.split()) != 1:
            raise OSError(errno.EINVAL, "does not name a node", path)
        return name.lower()

    def cluster(self) -> str | None:
        """Return the cluster's name, None if it cannot be read."""
        try:
            name = read_regular_file(os.path.join(self.directory, "ssconf_cluster_name"), _LONGEST).decode()
        except (OSError, UnicodeDecodeError):
            return None
        return name.strip() or None

    def candidates(self) -> frozenset[str]:
        """Return the names of the master candidates. Raises OSError."""
        path = os.path.join(self.directory, "ssconf_master_candidates")
        return frozenset(read_regular_file(path, _MANY).decode(errors="replace").lower().split())

    def leads(self) -> bool:
        """Whether this node is the master, or the files name no master. Raises OSError."""
        return self.master() in (None, self.name)

    def is_other_node_master(self) -> bool:
        """Whether the files name another node as the master."""
        with suppress(OSError):
            return not self.leads()
        return False


def this_node(directory: str) -> Ssconf:
    """Return the ssconf files of this node. An empty ``directory`` stands for Ganeti's default.

    As in Ganeti, ``GANETI_ROOTDIR`` and ``GANETI_HOSTNAME`` allow several nodes on one machine.
    """
    name = os.environ.get("GANETI_HOSTNAME") or socket.getfqdn()
    return Ssconf(name.lower(), directory or os.environ.get("GANETI_ROOTDIR", "") + _DEFAULT_DIRECTORY)
