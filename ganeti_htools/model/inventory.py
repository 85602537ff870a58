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
        return self.refusal(amount) is None and (self.max_unit is not None or amount <= self.capacity)

    def refusal(self, amount: int) -> str | None:
        """Describe the limit that an amount breaks, None if it breaks none. The capacity is no limit."""
        if self.max_unit is not None and amount > self.max_unit:
            return f"at most {self.max_unit} (max_unit)"
        if amount < self.min_unit:
            return f"at least {self.min_unit} (min_unit)"
        if amount != self.min_unit and amount % self.step_size:
            return f"a multiple of {self.step_size} (step_size)"
        return None

    def fits(self, amount: int, used: int) -> bool:
        """Whether a consumer can have this amount while others use ``used``."""
        return self.allows(amount) and used + amount <= self.capacity


# Inventories of a node, by resource class.
Inventories = tuple[tuple[str, Inventory], ...]
