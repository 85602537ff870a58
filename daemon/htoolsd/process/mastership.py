"""Whether this is Ganeti's master node, as its own daemons tell (``ganeti-luxid(8)``)."""

import errno
import os
import socket
from contextlib import suppress
from dataclasses import dataclass

from htoolsd.process import reading

EXIT_NOT_MASTER = 11  # of Ganeti's daemons that belong on the master

_USUAL = "/var/lib/ganeti"
_LONGEST = 4096  # bytes of a file with one name


@dataclass(frozen=True, slots=True)
class Place:
    """A node: its name, and the directory where Ganeti keeps what all nodes know (``ssconf_*``)."""

    name: str
    directory: str

    def master(self) -> str | None:
        """The master node's name, None where there is no Ganeti. Raises OSError."""
        path = os.path.join(self.directory, "ssconf_master_node")
        try:
            name = reading.whole(path, _LONGEST).decode().strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError:
            name = ""
        if not name.isprintable() or len(name.split()) != 1:
            raise OSError(errno.EINVAL, "does not name a node", path)
        return name.lower()

    def leads(self) -> bool:
        """Whether this node is the master, or no master is named at all. Raises OSError."""
        return self.master() in (None, self.name)

    def surely_follows(self) -> bool:
        """Whether another node is named as the master."""
        with suppress(OSError):
            return not self.leads()
        return False


def here(directory: str) -> Place:
    """This node. An empty ``directory`` stands for the usual one.

    ``GANETI_ROOTDIR`` and ``GANETI_HOSTNAME``, which make several nodes of one machine, mean what they
    mean to Ganeti.
    """
    name = os.environ.get("GANETI_HOSTNAME") or socket.getfqdn()
    return Place(name.lower(), directory or os.environ.get("GANETI_ROOTDIR", "") + _USUAL)
