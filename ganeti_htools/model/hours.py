"""Hours of the day: when policies act and batches of a roll begin."""

import re
from typing import NamedTuple

from ganeti_htools.model.errors import DataError, on_one_line

_DAY = 24 * 60
_FORM = re.compile(r"(\d{1,2})(?::([0-5]\d))?-(\d{1,2})(?::([0-5]\d))?", re.ASCII)


class Hours(NamedTuple):
    """Local times of day, in minutes after midnight; the end is excluded. Equal times mean always."""

    begin: int
    end: int

    def minutes_until(self, minute: int) -> int:
        """Return the minutes from a minute of the day until the hours begin; 0 within them."""
        within = (minute - self.begin) % _DAY < ((self.end - self.begin) % _DAY or _DAY)
        return 0 if within else (self.begin - minute) % _DAY

    def began_yesterday(self, minute: int) -> bool:
        """Whether a minute within the hours belongs to a night that began on the day before."""
        return self.begin > self.end > minute


def read_hours(text: str) -> Hours:
    """Read local times like ``22-6`` or ``22:00-24:00``. Raises DataError."""
    found = _FORM.fullmatch(text)
    numbers = [int(part or 0) for part in found.groups()] if found else [_DAY, 0, _DAY, 0]
    hours = Hours(60 * numbers[0] + numbers[1], 60 * numbers[2] + numbers[3])
    if hours.begin >= _DAY or hours.end > _DAY:
        raise DataError(f"expected local times like 22-6 or 22:00-24:00, not '{on_one_line(text)}'")
    return hours
