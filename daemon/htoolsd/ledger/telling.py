"""A ledger is told what exists, time and again; what was told and what stood there is remembered."""

from typing import TYPE_CHECKING

from ganeti_htools.model.cluster import Cluster
from htoolsd.ledger.following import Agreed, difference
from htoolsd.ledger.records import Changes, ConflictError, Contents
from htoolsd.ledger.saying import Statement, statement

if TYPE_CHECKING:
    from htoolsd.ledger.ledger import Ledger

_TRIES = 5  # to write before somebody else does; then the next time it is tried again
_NOTHING = Changes()


class Telling:
    """Tells one ledger what exists. ``written`` is how often something was.

    ``static_kvm_node_memory``: see :func:`.derive.derive`.
    """

    def __init__(self, static_kvm_node_memory: int = 0) -> None:
        self._static = static_kvm_node_memory
        self._said: Statement | None = None
        self._contents: Contents | None = None
        self._agreed: Agreed | None = None
        self.written = 0

    def tell(self, ledger: "Ledger", cluster: Cluster, name: str) -> Agreed:
        """Have the ledger say what is so of a cluster of that name; what both say. Raises LedgerError."""
        said = self._said = statement(cluster, name, self._static, self._said)
        for _ in range(_TRIES):
            known = self._contents
            self._contents = ledger.contents() if known is None else ledger.renewed(known)
            changes = difference(said, self._contents, self._agreed)
            if changes == _NOTHING:
                self._agreed = Agreed(said, self._contents)
                return self._agreed
            try:
                ledger.synchronise(changes)
                self.written += 1
            except ConflictError:
                continue  # somebody else was first: look again
        raise ConflictError("somebody else was always first")

    def forget(self) -> None:
        """Read everything anew the next time: the ledger may be another one."""
        self._contents = self._agreed = None
