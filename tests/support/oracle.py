"""Debian's own tools, which ours are compared with."""

from pathlib import Path
from typing import NamedTuple


class Oracle(NamedTuple):
    """Where Debian's own hail and hbal are; the other tools stand beside hbal."""

    hail: Path
    hbal: Path
