"""The arguments of the methods about the ledger."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.resource_classes import MEMORY, POOL, SPINDLES, VCPU, is_custom, is_own
from ganeti_htools.records import Valid
from htoolsd.socket.methods import Name

PROVIDER = "its uuid, its name (CLUSTER/NODE), the node of this cluster, or the beginning up to a dot"
CONSUMER = "its uuid, its name (CLUSTER/INSTANCE), or the instance of this cluster"
NOT_GIVEN = -1  # instead of a count, where null has a meaning or what is not given stays


def _count(least: int) -> Valid:  # beyond 2^53 JSON readers lose precision
    return Valid(f"a whole number of at least {least}", lambda count: least <= count < 1 << 53)


Count = Annotated[int, _count(0)]
Positive = Annotated[int, _count(1)]
Number = Annotated[float, Valid("a number greater than 0", lambda number: 0 < number < 1e9)]
ResourceClass = Annotated[
    str,
    Valid(
        f"a resource class: {MEMORY}, {VCPU} or CUSTOM_ with capitals, digits, underscores",
        lambda name: is_custom(name) or name in (MEMORY, VCPU),
    ),
]
Amounts = Annotated[Mapping[ResourceClass, Positive], Valid("an object: amounts by resource class", bool)]
AmountsByProvider = Annotated[
    Mapping[Name, Amounts], Valid("an object: by provider an object of amounts by resource class", bool)
]
Generations = Annotated[
    Mapping[Name, Count],
    Valid("an object: generations by provider"),
    "object: by provider, the generation on which the claim is based; any without it",
]
ConsumerGeneration = Annotated[
    Count | None, "the generation of the consumer in the last answer, null for a new consumer; any without it"
]
_REMOVE = Valid("true (without figures, and not for a class that follows Ganeti) or false")
Remove = Annotated[bool, _REMOVE, "true to remove this inventory (refused while it is in use)"]


def inventory(
    resource_class: str, before: Inventory | None, remove: bool, figures: Mapping[str, Any]
) -> Inventory | None:
    """Return the inventory ``before`` with the given figures of ``set_inventory``; None to remove it.

    Figures that Ganeti counts cannot be changed. Raises RefusalError.
    """
    figures = {name: figure for name, figure in figures.items() if figure != NOT_GIVEN}
    if remove:
        if figures or is_own(resource_class):
            raise _wrong("remove", _REMOVE.expected)
        return None
    if is_own(resource_class):
        if before is None:
            raise _wrong("resource_class", f"a class of the provider; {resource_class} follows Ganeti")
        for key in ("total", "allocation_ratio"):
            if key in figures:
                raise _wrong(key, f"no value; {_source(key, resource_class)}")
    elif before is None and "total" not in figures:
        raise _wrong("total", "a whole number of at least 0")
    new = replace(before or Inventory(0), tagged=False, **figures)
    if "reserved" in figures and new.reserved > new.total:
        raise _wrong("reserved", f"at most the total, which is {new.total}")
    if new.max_unit is not None and new.max_unit < new.min_unit:
        raise _wrong("max_unit", f"at least min_unit, which is {new.min_unit}")
    return new


def _source(key: str, resource_class: str) -> str:
    """Describe what determines a figure of a class that Ganeti counts."""
    if resource_class == POOL:
        return f"the {key} of a pool is that of its [[pool]] in htoolsd.toml, or what nodes report"
    if key == "total":
        return f"the total of {resource_class} is what the node reports"
    policy = {VCPU: "vcpu-ratio", SPINDLES: "spindle-ratio"}.get(resource_class)
    if policy:
        return f"the ratio of {resource_class} is the {policy} of the node group's instance policy"
    return f"{resource_class} is not overcommitted, because Ganeti gives each MiB to one instance"


def _wrong(argument: str, expected: str) -> RefusalError:
    return RefusalError(Refusal.ARGUMENTS, f"set_inventory: {argument}: expected {expected}")
