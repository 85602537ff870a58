"""Settings of the daemon's parts."""

from dataclasses import replace
from typing import Any

from htoolsd.config.config import Config, PlanSettings
from htoolsd.config.settings import Settings


def settings(**values: Any) -> Settings:
    """The settings with these values; others have their defaults."""
    return Settings(Config(**values))


def unjudged(**values: Any) -> Settings:
    """The settings with these values, without the judge of plans: a clock that jumps does not wait for it."""
    return settings(plans=PlanSettings(certificates="off"), **values)


def change(known: Settings, **values: Any) -> None:
    """Put other values in force."""
    known.change(replace(known.now, **values))
