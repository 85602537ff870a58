"""Settings of the recording: the table ``[recording]`` of the configuration file."""

from dataclasses import dataclass
from typing import Annotated

from ganeti_htools.records import Valid


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    """The keys of ``[recording]``."""

    mib: Annotated[
        int,
        Valid("a whole number from 0 to a billion", lambda mib: 0 <= mib < 1_000_000_000),
        "largest size of recorded decisions (htoolsctl replay), MiB; 0: record none",
    ] = 0
    days: Annotated[float, "how long they are kept, days"] = 31.0
