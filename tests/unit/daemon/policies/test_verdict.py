"""A policy told in short."""

from dataclasses import replace

import pytest

from htoolsd.config.policies import SqueezeSettings
from htoolsd.policies.memory import PolicyMemory
from htoolsd.policies.squeeze import NO_STANDBY
from htoolsd.policies.verdict import BEGUN, HELD, PolicyDecision, policy_summary


def decision(time: float, remedy: str, outcome: str) -> PolicyDecision:
    return PolicyDecision(time, "squeeze", remedy, "act", "timer", "default", outcome, "", {})


@pytest.mark.parametrize(
    ("begun", "remedy"),
    [
        (999.0, "power up"),  # in this round
        (200.0, "power down"),  # long ago
    ],
)
def test_summary_prefers_actions_to_held_back_remedies(begun: float, remedy: str) -> None:
    last = [decision(begun, "power up", BEGUN), decision(1000.0, "power down", HELD)]
    told = policy_summary("squeeze", SqueezeSettings(every_seconds=600.0), PolicyMemory(), last, 1001.0)
    assert told["last"]["remedy"] == remedy
    assert policy_summary("squeeze", SqueezeSettings(), PolicyMemory(), [], 1001.0)["last"] is None


def test_summary_names_groups_for_which_all_standby_nodes_are_not_enough() -> None:
    last = [decision(1000.0, "power up", HELD), decision(1000.0, "power down", HELD)]
    lacking = replace(last[0], reason=NO_STANDBY)

    def summary(*last: PolicyDecision) -> list[str]:
        found: list[str] = policy_summary("squeeze", SqueezeSettings(), PolicyMemory(), last, 1001.0)[
            "lacking"
        ]
        return found

    assert (summary(*last), summary(lacking, last[1])) == ([], ["default"])
