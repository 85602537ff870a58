"""States of instances in the course of repairs (``harep(1)``)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from ganeti_htools.engine.repair.records import Outcome, Repair, parse
from ganeti_htools.model.errors import HtoolsError


class Condition(Enum):
    """Condition of an instance by its repairs. It says nothing about damage that no repair has met."""

    FAILED = "Failure"
    HEALTHY = "Healthy"
    DISALLOWED = "Needs repair"
    PENDING = "Pending repair"


_AFTER = {
    None: Condition.PENDING,
    Outcome.SUCCESS: Condition.HEALTHY,
    Outcome.NOT_ALLOWED: Condition.HEALTHY,  # it may be allowed by now
    Outcome.FAILURE: Condition.FAILED,
}


@dataclass(frozen=True, slots=True)
class RepairState:
    """Condition of an instance, the repair that it follows from, and tags that are out of date."""

    condition: Condition = Condition.HEALTHY
    repair: Repair | None = None
    outdated: tuple[str, ...] = ()

    def then(self, condition: Condition, repair: Repair) -> "RepairState":
        """Return the state after a repair in place of the present one, whose tag becomes outdated."""
        tag = () if self.repair is None else (self.repair.tag,)
        return RepairState(condition, repair, tag + self.outdated)


def initial_state(instance: str, tags: Iterable[str]) -> RepairState:
    """Return the state that an instance's tags record. Raises HtoolsError for a conflict.

    Repairs count from the oldest on. The first failure stays. A pending repair must be the last one. A
    repair with several tags has the one with the highest outcome, and then the latest.
    """
    by_id: dict[str, list[Repair]] = {}
    for repair in filter(None, map(parse, tags)):
        by_id.setdefault(repair.id, []).append(repair)
    state = RepairState()
    for _name, records in sorted(by_id.items(), key=lambda item: (_begin(item[1]), item[0])):
        newest = sorted(records, key=_precedence)[-1]
        if state.condition is Condition.FAILED:
            break
        if state.repair is not None and state.condition is Condition.PENDING:
            raise HtoolsError(
                f'An unfinished repair was found in instance {instance}: found tag "{newest.tag}",'
                f' but older pending tag "{state.repair.tag}"exists.'  # Debian's harep has no blank there
            )
        state = state.then(_AFTER[newest.outcome], newest)
    return state


def _begin(records: Sequence[Repair]) -> int:
    return min(repair.time for repair in records)


def _precedence(repair: Repair) -> tuple[int, int]:
    rank = 0 if repair.outcome is None else 1 + list(Outcome).index(repair.outcome)
    return rank, repair.time
