"""Authorisation of repairs by tags of the instance, its node group and the cluster (``harep(1)``)."""

from collections.abc import Iterable
from dataclasses import dataclass

from ganeti_htools.engine.repair.records import RepairType, whole_number
from ganeti_htools.model.tags import AUTOREPAIR

_SUSPEND = f"{AUTOREPAIR}suspend"
_TYPES = {f"{AUTOREPAIR}{each.value}": each for each in RepairType}


@dataclass(frozen=True, slots=True)
class Allowed:
    """Repairs are allowed up to a type."""

    up_to: RepairType

    def permits(self, kind: RepairType) -> bool:
        return kind.risk <= self.up_to.risk


@dataclass(frozen=True, slots=True)
class Suspended:
    """Repairs are suspended until a time (seconds since the epoch), or for good."""

    until: int | None = None


# None: nobody has allowed repairs.
Authorisation = Allowed | Suspended | None


def authorisation(levels: Iterable[Iterable[str]], now: float) -> Authorisation:
    """Return the authorisation by the tags of objects, the nearest to the instance first.

    The nearest object with a valid tag decides.
    """
    decided = (_of_one(tuple(tags), now) for tags in levels)
    return next((each for each in decided if each is not None), None)


def _of_one(tags: tuple[str, ...], now: float) -> Authorisation:
    """Return what the tags of one object say. Suspension outranks types; the least destructive type counts.

    Of several suspensions the longest counts. One that has passed, or is malformed, does not.
    """
    suspended = [tag.removeprefix(f"{_SUSPEND}:") for tag in tags if tag.startswith(f"{_SUSPEND}:")]
    if _SUSPEND in tags or "" in suspended:
        return Suspended()
    until = max(filter(None, map(_time, suspended)), default=now)
    if until > now:
        return Suspended(int(until))
    allowed = [_TYPES[tag] for tag in tags if tag in _TYPES]
    return Allowed(min(allowed, key=lambda each: each.risk)) if allowed else None


def _time(text: str) -> int | None:
    try:
        return whole_number(text)
    except ValueError:
        return None
