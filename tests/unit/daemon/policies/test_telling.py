"""A policy told in short."""

import pytest

from htoolsd.policies.decision import BEGUN, HELD, Decision
from htoolsd.policies.memory import Memory
from htoolsd.policies.settings import Squeeze
from htoolsd.policies.telling import shortly


def decision(time: float, remedy: str, outcome: str) -> Decision:
    return Decision(time, "squeeze", remedy, "act", "timer", "default", outcome, "", {})


@pytest.mark.parametrize(
    ("begun", "remedy"),
    [
        (999.0, "power up"),  # in this round
        (200.0, "power down"),  # long ago
    ],
)
def test_what_is_done_is_told_before_what_is_held_back(begun: float, remedy: str) -> None:
    last = [decision(begun, "power up", BEGUN), decision(1000.0, "power down", HELD)]
    told = shortly("squeeze", Squeeze(every_seconds=600.0), Memory(), last, 1001.0)
    assert told["last"]["remedy"] == remedy
    assert shortly("squeeze", Squeeze(), Memory(), [], 1001.0)["last"] is None
