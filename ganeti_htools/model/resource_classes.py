"""Names of resource classes (OpenStack Placement): of resources that Ganeti counts, and custom ones."""

import re
from collections import Counter
from collections.abc import Collection, Iterable

from ganeti_htools.model.policy import IPolicy
from ganeti_htools.model.storage import DesiredUnit

MEMORY = "MEMORY_MB"
VCPU = "VCPU"
SPINDLES = "CUSTOM_SPINDLES"
POOL = "CUSTOM_DISK_MIB_POOL"  # of a pool, whatever it is called: clusters that share it may have other names

_CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]+")
_LONGEST = 255
_NEAREST = 3  # known classes that are named beside an unknown one
_DISK = "CUSTOM_DISK_MIB_"


def is_custom(name: str) -> bool:
    """Whether a name is that of a custom class: ``CUSTOM_`` and capital letters, digits and underscores."""
    return _CUSTOM.fullmatch(name) is not None and len(name) <= _LONGEST


def is_own(name: str) -> bool:
    """Whether Ganeti itself counts the class: memory, CPUs, spindles, disk space."""
    return name in (MEMORY, VCPU, SPINDLES) or is_disk(name)


def is_disk(name: str) -> bool:
    """Whether a class is disk space (MiB)."""
    return name.startswith(_DISK)


def own_ratio(name: str, policy: IPolicy, exclusive: bool) -> float:
    """Return the overcommit factor of a class that Ganeti counts; below 0 there is no limit.

    ``exclusive``: the node has exclusive storage.
    """
    if name == VCPU:
        return policy.vcpu_ratio
    return policy.spindle_ratio if name == SPINDLES and not exclusive else 1.0


def class_of_unit(unit: DesiredUnit, others: frozenset[str] = frozenset()) -> str:
    """Return the class of a storage unit's disk space (MiB), ``CUSTOM_DISK_MIB_TYPE_KEY``.

    Characters that a class name may not have become underscores. A name that is among ``others`` or too
    long ends in a hash of the unit.
    """
    plain = f"{_DISK}{unit.type.value}_{unit.key}".upper()
    name = re.sub("[^A-Z0-9_]", "_", plain).rstrip("_")
    if len(name) <= _LONGEST and name not in others:
        return name
    import hashlib  # which tools take long to load, and hardly ever need

    digest = hashlib.sha256(str(unit).encode()).hexdigest()[:8].upper()
    return f"{name[: _LONGEST - 9]}_{digest}"


def classes_of_units(units: Iterable[DesiredUnit]) -> dict[DesiredUnit, str]:
    """The classes of storage units that stand beside each other: no two have the same."""
    found = {unit: class_of_unit(unit) for unit in units}
    met = Counter(found.values())
    return {
        unit: class_of_unit(unit, frozenset({name} if met[name] > 1 else ())) for unit, name in found.items()
    }


def no_node_has(name: str, known: Collection[str]) -> str:
    """Describe that no node has a custom class, with the nearest names of ``known`` classes."""
    if not known:
        return f"no node has {name}"
    from difflib import get_close_matches  # rarely needed

    return f"no node has {name}; known: {', '.join(get_close_matches(name, known, _NEAREST, cutoff=0.0))}"
