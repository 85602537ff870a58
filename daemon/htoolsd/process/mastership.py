"""The role of this node: master or not, from Ganeti's ssconf files."""

import errno
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog
import trio

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.files import read_regular_file
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.planning.decision import Known
from htoolsd.sync.model import LIVE, STORAGE
from htoolsd.sync.node_storage import with_current_storage
from htoolsd.sync.sync import Sync

_log = structlog.get_logger()

EXIT_NOT_MASTER = 11  # the exit status of Ganeti's own master daemons on other nodes (ganeti-luxid(8))

_DEFAULT_DIRECTORY = "/var/lib/ganeti"
_LONGEST = 4096  # bytes of a file with one name


@dataclass(frozen=True, slots=True)
class Ssconf:
    """Ganeti's ``ssconf_*`` files in ``directory``, and the ``name`` of this node."""

    name: str
    directory: str

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


def role(ssconf: Ssconf) -> Callable[[], Awaitable[bool | None]]:
    """Return a function that returns whether this is the master node.

    While the files cannot be read, it returns the last known role; None at first.
    """
    known_role: bool | None = None
    complaint = ""

    def look() -> bool:
        nonlocal ssconf
        if not ssconf.leads():  # at boot, the first name may be wrong because there was no resolver yet
            ssconf = this_node(ssconf.directory)
        return ssconf.leads()

    async def leads() -> bool | None:
        nonlocal known_role, complaint
        try:
            known_role, why = await trio.to_thread.run_sync(look), ""
        except OSError as error:
            why = f"{error.filename}: {error.strerror}"
        if why and why != complaint:
            _log.warning("master node cannot be determined", error=why)
        complaint = why
        return known_role

    return leads


def known_cluster(sync: Sync, ssconf: Ssconf) -> tuple[Known | None, dict[str, float]]:
    """Return the cluster for decisions, and the age of each kind of data. Raises RefusalError.

    Only the master decides. A node that has just become the master may not have noticed yet, so the files
    are read again.
    """
    if sync.master is False and ssconf.is_other_node_master():
        raise RefusalError(Refusal.CLUSTER, "this is not the master node")
    ages, model = sync.ages(), sync.model
    plain, storage = model.without_storage, model.storage
    if model.cluster is None or plain is None:
        return None, ages

    def naming(units: frozenset[DesiredUnit]) -> Cluster:
        return with_current_storage(plain, storage, units)

    known = Known(
        model.cluster,
        ages[LIVE],
        ages.get(STORAGE, 0.0),
        naming,
        sync.storage.incomplete,
        model.reservations.promised,
        model.reservations.claims,
    )
    return known, ages
