"""Settings of the witness: the table ``[witness]`` of the configuration file."""

from dataclasses import dataclass
from typing import Annotated

from ganeti_htools.records import Valid
from htoolsd.config.keys import check_program, checked, one_of


@dataclass(frozen=True, slots=True)
class WitnessSettings:
    """The keys of ``[witness]``."""

    program: Annotated[
        str,
        checked(check_program),
        "Ganeti's own hail, like /usr/lib/ganeti/iallocators/hail, compared with htoolsd; empty: none",
    ] = ""
    answers: Annotated[
        str, one_of("theirs", "ours"), "whose answer Ganeti gets: theirs (the program's), ours"
    ] = "theirs"
    share: Annotated[
        float,
        Valid("a number from 0 to 1", lambda share: 0 <= share <= 1),
        "share of decisions in which the program takes part",
    ] = 1.0
    timeout_seconds: Annotated[
        float, "longest time of the program; then it is killed, and htoolsd answers"
    ] = 300.0
