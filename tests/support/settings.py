"""Settings of the daemon's parts."""

from dataclasses import replace
from typing import Any

from htoolsd.config.config import Config
from htoolsd.config.settings import Settings


def settings(**values: Any) -> Settings:
    """The settings with these values; others have their defaults."""
    return Settings(Config(**values))


def change(known: Settings, **values: Any) -> None:
    """Put other values in force."""
    known.change(replace(known.now, **values))
