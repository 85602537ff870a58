"""Forecasts as text."""

from datetime import datetime
from typing import Any

from ganeti_htools.cli.ctl.forecast import forecasts


def of(outcome: str, resource: str = "memory", free: float = 2048.0, **more: Any) -> dict[str, Any]:
    return {"group": "rack1", "resource": resource, "free": free, "outcome": outcome, "days": 1, **more}


def test_has_a_line_for_each_resource() -> None:
    ends: Any = {
        "earliest": datetime(2027, 1, 31, 12).timestamp(),
        "latest": datetime(2027, 2, 20).timestamp(),
    }
    found = [
        of("growing", **ends),
        of("full", "lvm-vg/ssd", 0.0),
        of("not growing", "cpus", 498.0),
        of("too little history", "instances", 7.0),
    ]
    assert [" ".join(line.split()) for line in forecasts(found).splitlines()] == [
        "Group Resource Free Forecast",
        "rack1 memory 2.0 GiB full between 2027-01-31 and 2027-02-20",
        "rack1 lvm-vg/ssd 0 MiB full",
        "rack1 cpus 498 not growing",
        "rack1 instances 7 too little history (1 day)",
    ]
    assert "no samples yet" in forecasts([])
