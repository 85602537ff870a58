"""The result of the last reload of the configuration."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class ReloadStatus:
    """The last reload of the configuration file at ``path``.

    ``error`` is why it was rejected. ``waiting`` are changed keys that need a restart.
    """

    path: str | None = None
    error: str | None = None
    waiting: list[str] = field(default_factory=list)
