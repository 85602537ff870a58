"""Checks of the arguments of the methods about the ledger. All functions raise RefusalError."""

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.resource_classes import MEMORY, POOL, SPINDLES, VCPU, is_custom, is_own
from htoolsd.socket.methods import Args

MOST = 1 << 53  # beyond it JSON readers lose precision
_LONGEST = 512  # characters of a name
COUNTS = ("total", "reserved", "min_unit", "max_unit", "step_size")


def name(args: Args, key: str) -> str:
    """Return a name."""
    return _name(key, args.get(key))


def name_if_any(args: Args, key: str) -> str | None:
    """Return a name, None without the argument."""
    return None if args.get(key) is None else name(args, key)


def generation(args: Args, key: str) -> int:
    """Return a generation."""
    return _count(key, args.get(key), 0)


def consumer_generation(args: Args) -> int | None:
    """Return the generation of a consumer: 0 for null (a new consumer), None without the argument."""
    key = "consumer_generation"
    if key not in args:
        return None
    return 0 if args[key] is None else generation(args, key)


def generations(args: Args) -> dict[str, int]:
    """Return generations by provider."""
    found = args.get("generations", {})
    if not isinstance(found, dict):
        raise _wrong("generations", "an object: generations by provider")
    return {each: _count(f"generations: {each}", number, 0) for each, number in found.items()}


def allocations(args: Args) -> dict[str, dict[str, int]]:
    """Return amounts by provider and resource class."""
    found = args.get("allocations")
    if not isinstance(found, dict) or not found:
        raise _wrong("allocations", "an object: by provider an object of amounts by resource class")
    return {_name("allocations", each): _amounts(f"allocations: {each}", found[each]) for each in found}


def resources(args: Args) -> dict[str, int]:
    """Return amounts by resource class."""
    return _amounts("resources", args.get("resources"))


def _amounts(where: str, found: object) -> dict[str, int]:
    if not isinstance(found, dict) or not found:
        raise _wrong(where, "an object: amounts by resource class")
    return {_class(where, each): _count(f"{where}: {each}", amount, 1) for each, amount in found.items()}


def seconds(args: Args) -> float | None:
    """Return a duration, None without the argument."""
    found = args.get("seconds")
    return None if found is None else _number("seconds", found)


def resource_class(args: Args) -> str:
    """Return the name of a resource class."""
    return _class("resource_class", args.get("resource_class"))


def _class(where: str, found: object) -> str:
    if isinstance(found, str) and (is_custom(found) or found in (MEMORY, VCPU)):
        return found
    raise _wrong(where, f"a resource class: {MEMORY}, {VCPU} or CUSTOM_ with capitals, digits, underscores")


def inventory(args: Args, resource_class: str, before: Inventory | None) -> Inventory | None:
    """Return the inventory ``before`` with the given figures; None to remove it.

    Figures that Ganeti counts cannot be changed.
    """
    figures = {key: args[key] for key in (*COUNTS, "allocation_ratio") if key in args}
    remove = args.get("remove", False)
    if not isinstance(remove, bool) or (remove and (figures or is_own(resource_class))):
        raise _wrong("remove", "true (without figures, and not for a class that follows Ganeti) or false")
    if remove:
        return None
    if is_own(resource_class):
        if before is None:
            raise _wrong("resource_class", f"a class of the provider; {resource_class} follows Ganeti")
        for key in ("total", "allocation_ratio"):
            if key in figures:
                raise _wrong(key, f"no value; {_source(key, resource_class)}")
    elif before is None and "total" not in figures:
        raise _wrong("total", "a whole number of at least 0")
    was = before or Inventory(0)
    new = Inventory(
        _count("total", figures.get("total", was.total), 0),
        _count("reserved", figures.get("reserved", was.reserved), 0),
        _count("min_unit", figures.get("min_unit", was.min_unit), 1),
        _most(figures.get("max_unit", was.max_unit)),
        _count("step_size", figures.get("step_size", was.step_size), 1),
        _number("allocation_ratio", figures.get("allocation_ratio", was.allocation_ratio)),
    )
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


def _most(found: object) -> int | None:
    return None if found is None else _count("max_unit", found, 1)


def _name(where: str, found: object) -> str:
    if not isinstance(found, str) or not 0 < len(found) <= _LONGEST or not found.isprintable():
        raise _wrong(where, "a name")
    return found


def _count(where: str, found: object, least: int) -> int:
    if isinstance(found, bool) or not isinstance(found, int) or not least <= found < MOST:
        raise _wrong(where, f"a whole number of at least {least}")
    return found


def _number(where: str, found: object) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < 1e9:
        raise _wrong(where, "a number greater than 0")
    return float(found)


def _wrong(where: str, expected: str) -> RefusalError:
    return RefusalError(Refusal.ARGUMENTS, f"{where}: expected {expected}")
