"""Inventories of a resource provider, and the amounts that a consumer may request.

Terms and rules are those of OpenStack Placement and of its design "Resource Providers - Base Models".
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inventory:
    """An inventory of one resource class, in whole numbers; memory and disk space in MiB.

    The capacity is ``total`` less ``reserved``, times the overcommit factor ``allocation_ratio``. A
    requested amount is ``min_unit`` or a multiple of ``step_size``, between ``min_unit`` and ``max_unit``.
    ``tagged``: a tag in Ganeti has the administrator's figures (used in the ledger only).
    """

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int | None = None  # None: the capacity
    step_size: int = 1
    allocation_ratio: float = 1.0
    tagged: bool = False

    @property
    def capacity(self) -> int:
        """The amount that all consumers together may use."""
        return max(0, int((self.total - self.reserved) * self.allocation_ratio))

    @property
    def limits_amounts(self) -> bool:
        """Whether a consumer may request some amounts only, besides the capacity."""
        return (self.min_unit, self.max_unit, self.step_size) != (1, None, 1)

    def allows(self, amount: int) -> bool:
        """Whether a consumer may request this amount, regardless of current use.

        ``min_unit`` is allowed even if it is no multiple of the step, as in the design; Placement refuses
        it.
        """
        most = self.capacity if self.max_unit is None else self.max_unit
        return self.min_unit <= amount <= most and (amount == self.min_unit or amount % self.step_size == 0)

    def fits(self, amount: int, used: int) -> bool:
        """Whether a consumer can have this amount while others use ``used``."""
        return self.allows(amount) and used + amount <= self.capacity


# Inventories of a node, by resource class.
Inventories = tuple[tuple[str, Inventory], ...]
