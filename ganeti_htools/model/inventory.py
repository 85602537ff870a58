"""What a resource provider has of a resource class, and which amounts of it may be asked for.

The terms and rules are those of OpenStack Placement and of its design "Resource Providers - Base Models".
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inventory:
    """An inventory: ``total``, less what is ``reserved`` for others, times the ``allocation_ratio``, is its
    capacity. An amount asked for at once is ``min_unit`` or a multiple of ``step_size``, between ``min_unit``
    and ``max_unit``. Amounts are whole numbers; of memory and disk space, MiB.
    """

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int | None = None  # None: the capacity
    step_size: int = 1
    allocation_ratio: float = 1.0

    @property
    def capacity(self) -> int:
        """What all consumers together may use."""
        return max(0, int((self.total - self.reserved) * self.allocation_ratio))

    def allows(self, amount: int) -> bool:
        """Whether this amount may be asked for at once, whatever is used already.

        The smallest amount may be asked for even if it is no multiple of the step, as the design has it;
        Placement refuses it.
        """
        most = self.capacity if self.max_unit is None else self.max_unit
        return self.min_unit <= amount <= most and (amount == self.min_unit or amount % self.step_size == 0)

    def fits(self, amount: int, used: int) -> bool:
        """Whether a consumer can have this amount while ``used`` is taken by others."""
        return self.allows(amount) and used + amount <= self.capacity


# What a node has, by resource class.
Inventories = tuple[tuple[str, Inventory], ...]
