"""The ledger: the inventories of resource providers, and the consumers to which they are allocated.

No lock is held between two calls. A client reads generations before it decides, and passes them with its
claim. If one of them has passed, the claim raises ConflictError, and the client decides again.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from sqlalchemy import delete, insert, select

from ganeti_htools.model.inventory import Inventory
from htoolsd.store import changes, claiming, rows
from htoolsd.store.database import LedgerDatabase, check_version
from htoolsd.store.records import (
    Allocations,
    ConflictError,
    Consumer,
    LedgerChanges,
    LedgerSnapshot,
    Provider,
    ProviderUsage,
)
from htoolsd.store.tables import classes, documents

Documents = Mapping[str, str | None]  # copies of state files by name; None: removed


class Ledger(LedgerDatabase):
    """The ledger in a database (``sqlite:///PATH`` or ``postgresql://...``).

    Every call blocks, and raises UnavailableError where the database cannot be used. Providers and consumers
    are named by their uuids.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._classes = dict[str, int]()  # ids; a class is never renamed or removed
        self._ending: tuple[object, tuple[Consumer, ...]] = None, ()  # the claims with an end, at a mark

    def providers(self, uuid: str | None = None) -> tuple[Provider, ...]:
        """Return the resource providers by name, or only the one with this uuid."""
        where = None if uuid is None else rows.THESE_PROVIDERS
        with self.reading() as connection:
            return tuple(rows.read_providers(connection, where, uuids=[uuid]).values())

    def consumers(self, uuid: str | None = None) -> tuple[Consumer, ...]:
        """Return the consumers by name, or only the one with this uuid."""
        where = None if uuid is None else rows.THIS_CONSUMER
        with self.reading() as connection:
            return tuple(rows.read_consumers(connection, where, uuid=uuid).values())

    def provider_usages(self, provider: str | None = None) -> tuple[ProviderUsage, ...]:
        """Return all providers with inventories and usage, by name; or only one of them."""
        where = None if provider is None else rows.THESE_PROVIDERS
        with self.reading() as connection:
            return rows.read_provider_usages(connection, where, uuids=[provider])

    def counts(self) -> Mapping[str, int]:
        """Return the numbers of ``providers``, of ``claims``, and of claims that exceed the capacity."""
        with self.reading() as connection:
            return rows.count(connection)

    def snapshot(self, consumer: str | None = None) -> LedgerSnapshot:
        """Return the whole ledger at one moment; or one consumer with its allocations and their providers."""
        with self.reading() as connection:
            if consumer is None:
                return rows.read_snapshot(connection)
            return rows.read_holding(connection, consumer)

    def refresh(self, known: LedgerSnapshot, some: Collection[str] | None = None) -> LedgerSnapshot:
        """Return the whole ledger at one moment; or a known snapshot with ``some`` providers as they are now.

        The unchanged parts of the known snapshot are not read again.
        """
        with self.reading() as connection:
            return rows.refresh(connection, known, some)

    def expiring(self) -> tuple[Consumer, ...]:
        """Return the claims that have an end. Promises are left to those who made them.

        Called every few seconds, so it also sees when a newer daemon has upgraded a database in use.
        """
        if (mark := self.mark()) != self._ending[0]:
            with self.reading() as connection:
                check_version(connection)
                self._ending = mark, tuple(rows.read_consumers(connection, rows.ENDING_CLAIMS).values())
        return self._ending[1]

    def set_inventory(
        self, provider: str, generation: int, resource_class: str, figures: Inventory | None
    ) -> None:
        """Set all figures of a provider's inventory, or remove it (None).

        Raises ConflictError if the generation has passed or a removed inventory is in use; UnknownError.
        """
        (class_id,) = self._class_ids([resource_class]).values()
        with self.writing() as connection:
            changes.set_inventory(connection, provider, generation, class_id, figures)

    def claim(
        self,
        consumer: Consumer,
        allocations: Allocations,
        generations: Mapping[str, int],
        over_capacity: bool = False,
    ) -> Consumer:
        """Allocate amounts (by the provider's uuid and class) to a consumer instead of all that it had.

        ``generations`` of providers are those of the view on which the claim was decided. Providers that the
        claim touches must still have them; a provider that is not named may have changed. Returns the
        consumer as written, with its new generation. Raises ConflictError, UnknownError; CapacityError,
        unless the claim may exceed it (``over_capacity``): then the consumer is marked.
        """
        class_ids = self._class_ids({name for amounts in allocations.values() for name in amounts})
        with self.writing() as connection:
            return claiming.claim(connection, consumer, allocations, generations, class_ids, over_capacity)

    def release(self, consumer: Consumer) -> bool:
        """Delete a consumer with its allocations; return whether it existed.

        Raises ConflictError if the consumer names a generation that has passed.
        """
        with self.writing() as connection:
            return claiming.release(connection, consumer)

    def release_unless_renewed(self, claims: Iterable[Consumer]) -> tuple[Consumer, ...]:
        """Release claims, and return them, without those that have changed since they were read."""
        released = []
        for each in claims:
            with suppress(ConflictError):  # claimed again in the meantime
                released += [each] if self.release(each) else []
        return tuple(released)

    def settle(self, consumer: Consumer) -> None:
        """Have the promise to a consumer count as use, until the ledger follows the cluster."""
        with self.writing() as connection:
            claiming.settle(connection, consumer)

    def apply(self, wanted: LedgerChanges) -> None:
        """Write the changes that bring the ledger in step with a cluster, without a check of the capacity.

        Raises ConflictError, UnknownError.
        """
        named = {name for each in wanted.inventories.values() for name in each}
        named |= {name for _, each in wanted.allocations for some in each.values() for name in some}
        class_ids = self._class_ids(named)
        with self.writing() as connection:
            changes.apply_changes(connection, wanted, class_ids)

    def documents_of_others(self, cluster: str, writer: str) -> Documents:
        """Return the documents of a cluster that another writer has written last."""
        table = documents.c
        wanted = select(table.name, table.content).where(table.cluster == cluster, table.writer != writer)
        with self.reading() as connection:
            return {row.name: row.content for row in connection.execute(wanted)}

    def write_documents(self, cluster: str, writer: str, contents: Documents) -> None:
        """Replace documents of a cluster. Raises ConflictError."""
        table = documents.c
        with self.writing() as connection:
            connection.execute(delete(documents).where(table.cluster == cluster, table.name.in_(contents)))
            connection.execute(
                insert(documents),
                [
                    {"cluster": cluster, "name": name, "writer": writer, "content": content}
                    for name, content in contents.items()
                ],
            )

    def _class_ids(self, names: Iterable[str]) -> Mapping[str, int]:
        """Return the ids of classes by name. New classes are added in transactions of their own, for good."""
        for name in sorted(set(names) - self._classes.keys()):
            query = select(classes.c.id).where(classes.c.name == name)
            with self.reading() as connection:
                number = connection.scalar(query)
            if number is None:
                with suppress(ConflictError), self.writing() as connection:  # another client may add it now
                    connection.execute(insert(classes).values(name=name))
                with self.reading() as connection:
                    number = connection.execute(query).scalar_one()
            self._classes[name] = number
        return {name: self._classes[name] for name in names}
