"""The way of programs to htoolsd (``docs/python-api.md``). It needs the standard library only."""

from ganeti_htools.client.answers import DecisionAnswer, PlanAnswer, PlanSummary, StatusAnswer
from ganeti_htools.client.calls import CallRefusedError, NoReplyError
from ganeti_htools.client.daemon import Daemon, connect
from ganeti_htools.client.plan_changes import PlanChange
from ganeti_htools.client.protocol import Refusal

__all__ = [
    "CallRefusedError",
    "Daemon",
    "DecisionAnswer",
    "NoReplyError",
    "PlanAnswer",
    "PlanChange",
    "PlanSummary",
    "Refusal",
    "StatusAnswer",
    "connect",
]
