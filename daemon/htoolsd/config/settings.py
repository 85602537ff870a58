"""The settings in force, for all parts of the daemon."""

import trio

from htoolsd.config.config import Config


class Settings:
    """The configuration in force is ``now``: parts read it when they need a value.

    ``changed`` is set at the next change, and another event follows. Who waits takes it before ``now``.
    """

    def __init__(self, now: Config) -> None:
        self.now = now
        self.changed = trio.Event()

    def change(self, new: Config) -> None:
        """Put another configuration in force."""
        changed, self.now, self.changed = self.changed, new, trio.Event()
        changed.set()
