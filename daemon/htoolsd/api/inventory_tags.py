"""Inventories written to tags of Ganeti, so that they reach the next master and every other program."""

from collections.abc import Callable, Sequence

from ganeti_htools import machine
from ganeti_htools.backends.inventory_tags import tag_of, tags_about
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.luxi import opcodes, query_jobs
from ganeti_htools.luxi.client import LuxiError
from ganeti_htools.luxi.opcodes import Opcode, Signature
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.resource_classes import POOL
from ganeti_htools.model.units_in_use import known_pools, units_in_use
from htoolsd.follow.reconciler import Reconciler
from htoolsd.sync.sync import Sync

_PATIENCE = 20.0  # seconds; the job may wait for the node's lock


class InventoryTags:
    """Writes inventories to tags."""

    def __init__(self, sync: Sync, reconciler: Reconciler) -> None:
        self._sync = sync
        self._reconciler = reconciler

    async def write(self, owner: str, resource_class: str, inventory: Inventory | None) -> None:
        """Set an inventory of a node or pool of this cluster in a tag; None removes the tag.

        Returns when the ledger has followed. Raises RefusalError.
        """
        cluster = await self._cluster(owner)
        try:
            work = _job(cluster, owner, resource_class, inventory)
        except DataError as error:
            raise RefusalError(Refusal.ARGUMENTS, str(error)) from None
        if work:
            purpose = f"sets the inventory of {resource_class} of {owner}"
            signature = Signature("htoolsd", "inventory set", purpose, f"{machine.now_ns():x}")
            try:
                async with self._sync.client() as ganeti:
                    await query_jobs.run_job(ganeti, work, signature, _PATIENCE)
            except LuxiError as error:
                raise RefusalError(Refusal.CLUSTER, f"{owner}: the tag was not set: {error}") from None
            await self._cluster(owner)
        await self._reconciler.reconcile()

    async def _cluster(self, owner: str) -> Cluster:
        """Return the cluster as it is now. Raises RefusalError."""
        error = await self._sync.poll_configuration()
        cluster = self._sync.model.cluster
        if error or cluster is None:
            why = error or "the cluster is not known yet"
            raise RefusalError(Refusal.CLUSTER, f"{owner}: its tags cannot be read: {why}; try again later")
        return cluster


def _job(cluster: Cluster, owner: str, resource_class: str, inventory: Inventory | None) -> Sequence[Opcode]:
    """Return the opcodes that give a node or pool one tag about a class, or none. Raises DataError."""
    node = next((each for each in cluster.nodes if each.name == owner), None)
    if node is not None:
        wanted = tag_of(resource_class, inventory) if inventory else None
        old = tags_about(node.tags, resource_class)
        return _change(
            old,
            wanted,
            lambda tags: opcodes.tag_node(owner, tags),
            lambda tags: opcodes.untag_node(owner, tags),
        )
    if owner not in map(str, known_pools(cluster, units_in_use(cluster))):
        raise DataError(f"{owner}: not in the cluster now; expected one of its nodes or pools")
    if resource_class != POOL:
        raise DataError(f"{owner}: decisions look at no {resource_class} of a pool; expected {POOL}")
    wanted = tag_of(owner, inventory, pool=True) if inventory else None
    return _change(tags_about(cluster.tags, owner), wanted, opcodes.tag_cluster, opcodes.untag_cluster)


def _change(
    old: Sequence[str],
    wanted: str | None,
    add: Callable[[Sequence[str]], Opcode],
    remove: Callable[[Sequence[str]], Opcode],
) -> list[Opcode]:
    """Return the opcodes that leave only the wanted tag; the new one is there before the old ones go."""
    gone = [tag for tag in old if tag != wanted]
    found = [add([wanted])] if wanted and wanted not in old else []
    return found + ([remove(gone)] if gone else [])
