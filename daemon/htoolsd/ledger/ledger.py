"""The ledger: what resource providers have, and who has been promised what of it.

No lock is held between two calls. Whoever decides reads generations before and hands them in with the claim;
if one has passed, the claim is a ConflictError, and the decision is made anew.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, insert, select

from ganeti_htools.model.inventory import Inventory
from htoolsd.ledger import claiming, reading, synchronising
from htoolsd.ledger.database import Database
from htoolsd.ledger.records import (
    Allocation,
    Allocations,
    Amounts,
    Changes,
    ConflictError,
    Consumer,
    Contents,
    Provider,
    Standing,
    UnknownError,
)
from htoolsd.ledger.tables import classes


class Ledger:
    """The ledger in a database (``sqlite:///PATH`` or ``postgresql://...``).

    Every call blocks, and raises UnavailableError where the database cannot be used. Providers and consumers
    are named by their uuids (:mod:`.identities`).
    """

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self._classes = dict[str, int]()  # ids; a class is never renamed or removed

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def providers(self) -> tuple[Provider, ...]:
        """All resource providers, by name."""
        with self._database.reading() as connection:
            return reading.all_providers(connection)

    def provider(self, uuid: str) -> Provider:
        """One resource provider. Raises UnknownError."""
        with self._database.reading() as connection:
            return _provider(connection, uuid)

    def inventories(self, provider: str) -> Mapping[str, Inventory]:
        """What a provider has, by class; empty if there is no such provider."""
        with self._database.reading() as connection:
            return reading.all_inventories(connection, provider).get(provider, {})

    def consumer(self, uuid: str) -> Consumer | None:
        """A consumer, if there is one."""
        with self._database.reading() as connection:
            return next(iter(reading.all_consumers(connection, uuid)), None)

    def consumers(self) -> tuple[Consumer, ...]:
        """All consumers, by name."""
        with self._database.reading() as connection:
            return reading.all_consumers(connection)

    def allocations(self, consumer: str | None = None, provider: str | None = None) -> tuple[Allocation, ...]:
        """What is allocated, to all or one consumer, of all providers or of one."""
        with self._database.reading() as connection:
            return reading.all_allocations(connection, consumer, provider)

    def usage(self, provider: str) -> Amounts:
        """What all consumers together use of a provider, by class."""
        with self._database.reading() as connection:
            return reading.all_usage(connection, provider).get(provider, {})

    def standings(self, provider: str | None = None) -> tuple[Standing, ...]:
        """How it stands with all providers, by name, or with one."""
        with self._database.reading() as connection:
            return reading.standings(connection, provider)

    def counts(self) -> Mapping[str, int]:
        """How many ``providers`` and ``claims`` there are, and how many of these go ``beyond`` capacity."""
        with self._database.reading() as connection:
            return reading.counts(connection)

    def contents(self, consumer: str | None = None) -> Contents:
        """Everything, as it is at one moment; of one consumer, what it has of which providers."""
        with self._database.reading() as connection:
            return reading.contents(connection, consumer)

    def renewed(self, known: Contents) -> Contents:
        """Everything, likewise; what is ``known`` and has not changed is not read again."""
        with self._database.reading() as connection:
            return reading.renewed(connection, known)

    def set_inventory(
        self, provider: str, generation: int, resource_class: str, inventory: Inventory | None
    ) -> Provider:
        """Set what a provider has of a class, all figures of it; None: it has none. The provider then.

        Raises ConflictError if the generation has passed, or if what would be gone is in use; UnknownError.
        """
        (class_id,) = self._class_ids([resource_class]).values()
        with self._database.writing() as connection:
            synchronising.set_inventory(connection, provider, generation, class_id, inventory)
            return _provider(connection, provider)

    def claim(
        self,
        consumer: Consumer,
        allocations: Allocations,
        generations: Mapping[str, int],
        beyond: bool = False,
    ) -> Consumer:
        """Promise a consumer these amounts, by the provider's uuid and class, instead of what it had.

        ``generations`` of providers are those of the view on which this was decided: of those that are
        touched, each has to be the same still; one that is not named may have changed. The consumer is as it
        is then, with its generation. Raises ConflictError, UnknownError; CapacityError unless it may go
        ``beyond`` what there is, and is marked then.
        """
        class_of = self._class_ids({name for amounts in allocations.values() for name in amounts})
        with self._database.writing() as connection:
            return claiming.claim(connection, consumer, allocations, generations, class_of, beyond)

    def release(self, consumer: str, generation: int | None = None) -> bool:
        """Forget a consumer and all it has; whether there was one. A generation is compared if it is given.

        Raises ConflictError.
        """
        with self._database.writing() as connection:
            return claiming.release(connection, consumer, generation)

    def release_expired(self, now: float) -> tuple[Consumer, ...]:
        """Forget the claims whose time has come, and tell which. Promises are left to those who made them."""
        with self._database.reading() as connection:
            due = reading.expired(connection, now)
        return tuple(each for each in due if self._released(each))

    def synchronise(self, changes: Changes) -> None:
        """Write what exists, whether there is room or not. Raises ConflictError, UnknownError."""
        of_inventories = {name for each in changes.inventories.values() for name in each}
        of_amounts = {name for _, each in changes.allocations for some in each.values() for name in some}
        class_of = self._class_ids(of_inventories | of_amounts)
        with self._database.writing() as connection:
            synchronising.synchronise(connection, changes, class_of)

    def _released(self, consumer: Consumer) -> bool:
        try:
            return self.release(consumer.uuid, consumer.generation)
        except ConflictError:  # claimed anew
            return False

    def _class_ids(self, names: Iterable[str]) -> Mapping[str, int]:
        """The ids of classes, made if need be, in transactions of their own: they are there to stay."""
        for name in sorted(set(names) - self._classes.keys()):
            query = select(classes.c.id).where(classes.c.name == name)
            with self._database.reading() as connection:
                number = connection.scalar(query)
            if number is None:
                try:
                    with self._database.writing() as connection:
                        connection.execute(insert(classes).values(name=name))
                except ConflictError:
                    pass  # somebody else made it
                with self._database.reading() as connection:
                    number = connection.execute(query).scalar_one()
            self._classes[name] = number
        return {name: self._classes[name] for name in names}


def _provider(connection: Connection, uuid: str) -> Provider:
    found = reading.all_providers(connection, uuid)
    if not found:
        raise UnknownError(f"there is no resource provider {uuid}")
    return found[0]
