"""Whether this is Ganeti's master node, as its own daemons tell (``ganeti-luxid(8)``)."""

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

EXIT_NOT_MASTER = 11  # as Ganeti's own daemons of the master exit on other nodes

_USUAL = "/var/lib/ganeti"
_LONGEST = 4096  # bytes of a file with one name


@dataclass(frozen=True, slots=True)
class Ssconf:
    """What Ganeti keeps on each node (``ssconf_*`` files in ``directory``), and the name of this node."""

    name: str
    directory: str

    def master(self) -> str | None:
        """The master node's name, None where there is no Ganeti. Raises OSError."""
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
        """The cluster's name, None where that cannot be told."""
        try:
            name = read_regular_file(os.path.join(self.directory, "ssconf_cluster_name"), _LONGEST).decode()
        except (OSError, UnicodeDecodeError):
            return None
        return name.strip() or None

    def leads(self) -> bool:
        """Whether this node is the master, or no master is named at all. Raises OSError."""
        return self.master() in (None, self.name)

    def surely_follows(self) -> bool:
        """Whether another node is named as the master."""
        with suppress(OSError):
            return not self.leads()
        return False


def here(directory: str) -> Ssconf:
    """This node. An empty ``directory`` stands for the usual one.

    ``GANETI_ROOTDIR`` and ``GANETI_HOSTNAME``, which make several nodes of one machine, mean what they
    mean to Ganeti.
    """
    name = os.environ.get("GANETI_HOSTNAME") or socket.getfqdn()
    return Ssconf(name.lower(), directory or os.environ.get("GANETI_ROOTDIR", "") + _USUAL)


def role(ssconf: Ssconf) -> Callable[[], Awaitable[bool | None]]:
    """A function that tells whether this is the master node.

    While that cannot be read, it tells what it told last; None at first.
    """
    told: bool | None = None
    complaint = ""

    def look() -> bool:
        nonlocal ssconf
        if not ssconf.leads():  # at boot, the node's name may have been asked for before it could be told
            ssconf = here(ssconf.directory)
        return ssconf.leads()

    async def leads() -> bool | None:
        nonlocal told, complaint
        try:
            told, why = await trio.to_thread.run_sync(look), ""
        except OSError as error:
            why = f"{error.filename}: {error.strerror}"
        if why and why != complaint:
            _log.warning("who is master cannot be told", error=why)
        complaint = why
        return told

    return leads


def known(sync: Sync, ssconf: Ssconf) -> tuple[Known | None, dict[str, float]]:
    """The cluster for decisions, and how old each kind of data is. Raises RefusalError.

    Only the master decides; a node that has just become the master may not have noticed yet.
    """
    if sync.master is False and ssconf.surely_follows():
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
    )
    return known, ages
