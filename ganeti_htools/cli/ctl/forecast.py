"""Forecasts of when the resources of node groups are full."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from ganeti_htools.cli.ctl.commands import Add, call, show
from ganeti_htools.cli.report.layout import fitting_table
from ganeti_htools.model.wording import describe_forecast, size

_COUNTED = ("cpus", "real-cpus", "instances")  # resources that are no sizes


def declare(add: Add) -> None:
    add("forecast", _forecast, "Show when the resources of the node groups will be full.")


def _forecast(options: Namespace) -> int:
    return show(options, call(options, "status")["forecast"], forecasts)


def forecasts(found: Any) -> str:
    rows = [(each["group"], each["resource"], _free(each), describe_forecast(each)) for each in found]
    if not rows:
        return "no samples yet; the master's daemon takes the first a minute after its start"
    return fitting_table(
        ("Group", "Resource", "Free", "Forecast"), rows, (False, False, True, False)
    ).rstrip()


def _free(each: Mapping[str, Any]) -> str:
    return f"{each['free']:.0f}" if each["resource"] in _COUNTED else size(each["free"])
