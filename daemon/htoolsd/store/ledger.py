"""The ledger: the inventories of resource providers, and the consumers to which they are allocated.

No lock is held between two calls. A client reads generations before it decides, and passes them with its
claim. If one of them has passed, the claim raises ConflictError, and the client decides again.

Every transaction that writes locks in one order: consumers first, then providers by their ids. Two such
transactions therefore never wait for each other. A transaction that has raised a provider's generation is
alone with its content until it ends, so the amounts that it reads then are final.
"""

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import insert, select

from ganeti_htools.model.inventory import Inventory
from htoolsd.store import allocation, inventory, snapshot
from htoolsd.store.consumer import expiring_consumers, read_consumers
from htoolsd.store.database import LedgerDatabase, check_version
from htoolsd.store.documents import Documents, documents_of_others, write_documents
from htoolsd.store.provider import read_provider, read_providers
from htoolsd.store.records import (
    Allocations,
    Amounts,
    ConflictError,
    Consumer,
    LedgerChanges,
    LedgerSnapshot,
    Provider,
    ProviderUsage,
    ResourceAllocation,
)
from htoolsd.store.tables import classes


class Ledger:
    """The ledger in a database (``sqlite:///PATH`` or ``postgresql://...``).

    Every call blocks, and raises UnavailableError where the database cannot be used. Providers and consumers
    are named by their uuids.
    """

    def __init__(self, url: str) -> None:
        self._database = LedgerDatabase(url)
        self._classes = dict[str, int]()  # ids; a class is never renamed or removed

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def interrupt(self) -> None:
        """Have a call that waits for a server in another thread fail at once."""
        self._database.interrupt()

    def check_file(self) -> None:
        """Raise UnavailableError if the database is a file that has been removed or replaced."""
        self._database.check_file()

    def providers(self) -> tuple[Provider, ...]:
        """Return all resource providers, by name."""
        with self._database.reading() as connection:
            return read_providers(connection)

    def provider(self, uuid: str) -> Provider:
        """Return one resource provider. Raises UnknownError."""
        with self._database.reading() as connection:
            return read_provider(connection, uuid)

    def inventories(self, provider: str) -> Mapping[str, Inventory]:
        """Return the inventories of a provider by class; empty for an unknown provider."""
        with self._database.reading() as connection:
            return inventory.read_inventories(connection, provider).get(provider, {})

    def documents_of_others(self, cluster: str, writer: str) -> Documents:
        """Return the documents of a cluster that another writer has written last."""
        with self._database.reading() as connection:
            return documents_of_others(connection, cluster, writer)

    def write_documents(self, cluster: str, writer: str, contents: Documents) -> None:
        """Replace documents of a cluster. Raises ConflictError."""
        with self._database.writing() as connection:
            write_documents(connection, cluster, writer, contents)

    def consumer(self, uuid: str) -> Consumer | None:
        """Return a consumer, None for an unknown one."""
        with self._database.reading() as connection:
            return next(iter(read_consumers(connection, uuid)), None)

    def consumers(self) -> tuple[Consumer, ...]:
        """Return all consumers, by name."""
        with self._database.reading() as connection:
            return read_consumers(connection)

    def allocations(
        self, consumer: str | None = None, provider: str | None = None
    ) -> tuple[ResourceAllocation, ...]:
        """Return the allocations, to all consumers or one, of all providers or one."""
        with self._database.reading() as connection:
            return allocation.read_allocations(connection, consumer, provider)

    def usage(self, provider: str) -> Amounts:
        """Return the amounts that all consumers together use of a provider, by class."""
        with self._database.reading() as connection:
            return allocation.read_usage(connection, provider).get(provider, {})

    def provider_usages(self, provider: str | None = None) -> tuple[ProviderUsage, ...]:
        """Return all providers with inventories and usage, by name; or only one of them."""
        with self._database.reading() as connection:
            return snapshot.read_provider_usages(connection, provider)

    def counts(self) -> Mapping[str, int]:
        """Return the numbers of ``providers``, of ``claims``, and of claims ``beyond`` the capacity."""
        with self._database.reading() as connection:
            return snapshot.count(connection)

    def snapshot(self, consumer: str | None = None) -> LedgerSnapshot:
        """Return the whole ledger at one moment; or one consumer with its allocations and their providers."""
        with self._database.reading() as connection:
            return snapshot.read_snapshot(connection, consumer)

    def refresh(self, known: LedgerSnapshot, providers: Collection[str] | None = None) -> LedgerSnapshot:
        """Return the whole ledger at one moment; or a known snapshot with the present content of providers.

        The unchanged parts of the known snapshot are not read again.
        """
        with self._database.reading() as connection:
            return snapshot.refresh(connection, known, providers)

    def set_inventory(
        self, provider: str, generation: int, resource_class: str, figures: Inventory | None
    ) -> Provider:
        """Set all figures of a provider's inventory, or remove it (None); return the provider as written.

        Raises ConflictError if the generation has passed or a removed inventory is in use; UnknownError.
        """
        (class_id,) = self._class_ids([resource_class]).values()
        with self._database.writing() as connection:
            inventory.set_inventory(connection, provider, generation, class_id, figures)
            return read_provider(connection, provider)

    def claim(
        self,
        consumer: Consumer,
        allocations: Allocations,
        generations: Mapping[str, int],
        beyond: bool = False,
    ) -> Consumer:
        """Allocate amounts (by the provider's uuid and class) to a consumer instead of all that it had.

        ``generations`` of providers are those of the view on which the claim was decided. Providers that the
        claim touches must still have them; a provider that is not named may have changed. Returns the
        consumer as written, with its new generation. Raises ConflictError, UnknownError; CapacityError,
        unless the claim may go ``beyond`` the capacity: then the consumer is marked.
        """
        class_ids = self._class_ids({name for amounts in allocations.values() for name in amounts})
        with self._database.writing() as connection:
            return allocation.claim(connection, consumer, allocations, generations, class_ids, beyond)

    def release(self, consumer: str, generation: int | None = None) -> bool:
        """Delete a consumer with its allocations; return whether it existed.

        Raises ConflictError if a generation is given and has passed.
        """
        with self._database.writing() as connection:
            return allocation.release(connection, consumer, generation)

    def settle(self, consumer: str) -> None:
        """Have the promise to a consumer count as use, until the ledger follows the cluster."""
        with self._database.writing() as connection:
            allocation.settle(connection, consumer)

    def expiring(self) -> tuple[Consumer, ...]:
        """Return the claims that have an end. Promises are left to those who made them.

        Called every few seconds, so it also sees when a newer daemon has upgraded a database in use.
        """
        with self._database.reading() as connection:
            check_version(connection)
            return expiring_consumers(connection)

    def release_unless_renewed(self, claims: Iterable[Consumer]) -> tuple[Consumer, ...]:
        """Release claims, and return them, without those that have changed since they were read."""
        return tuple(each for each in claims if self._release_unless_renewed(each))

    def apply(self, changes: LedgerChanges) -> None:
        """Write the changes that bring the ledger in step with a cluster, without a check of the capacity.

        Raises ConflictError, UnknownError.
        """
        of_inventories = {name for each in changes.inventories.values() for name in each}
        of_amounts = {name for _, each in changes.allocations for some in each.values() for name in some}
        class_ids = self._class_ids(of_inventories | of_amounts)
        with self._database.writing() as connection:
            snapshot.apply_changes(connection, changes, class_ids)

    def _release_unless_renewed(self, consumer: Consumer) -> bool:
        try:
            return self.release(consumer.uuid, consumer.generation)
        except ConflictError:  # claimed again in the meantime
            return False

    def _class_ids(self, names: Iterable[str]) -> Mapping[str, int]:
        """Return the ids of classes by name. New classes are added in transactions of their own, for good."""
        for name in sorted(set(names) - self._classes.keys()):
            query = select(classes.c.id).where(classes.c.name == name)
            with self._database.reading() as connection:
                number = connection.scalar(query)
            if number is None:
                try:
                    with self._database.writing() as connection:
                        connection.execute(insert(classes).values(name=name))
                except ConflictError:
                    pass  # another client has added it
                with self._database.reading() as connection:
                    number = connection.execute(query).scalar_one()
            self._classes[name] = number
        return {name: self._classes[name] for name in names}
