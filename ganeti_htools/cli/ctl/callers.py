"""Users who called the daemon, by name. Names are looked up here, never by the daemon."""

import pwd
from collections.abc import Mapping
from functools import cache
from typing import Any


def caller(by: Mapping[str, int]) -> str:
    return _user(by["uid"])


@cache
def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return f"user {uid}"


def author(plan: Mapping[str, Any]) -> str:
    return f"policy {plan['policy']}" if plan.get("policy") is not None else caller(plan["by"])


def others(plan: Mapping[str, Any]) -> str:
    """Name the users who executed and cancelled a plan, unless they are its author."""
    acts = (("executed", plan.get("executed_by")), ("cancelled", plan.get("cancelled_by")))
    by = ((act, caller(user)) for act, user in acts if user is not None)
    return "".join(f", {act} by {name}" for act, name in by if name != author(plan))
