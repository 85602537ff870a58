"""A plan as the daemon keeps it, from what a tool proposes."""

import time
from collections.abc import Mapping
from typing import Any

from ganeti_htools.planning.options import to_json
from ganeti_htools.planning.proposal import Proposal, begin
from htoolsd.plans.plan import Plan


def made(
    tool: str,
    options: Any,
    proposal: Proposal,
    generations: Mapping[str, int],
    by: Mapping[str, int],
    **more: Any,
) -> Plan:
    """A plan that has not begun. ``by`` are the ``uid`` and ``pid`` of the caller, ``more`` is what else its
    record says.
    """
    run = begin(tool, proposal.purpose, proposal.jobs, options.execution)
    facts = {
        "id": run.signature.run,
        "tool": tool,
        "options": to_json(options),
        "groups": list(proposal.groups),
        "made": time.time(),
        "by": dict(by),
        "generations": generations,
        "score": proposal.score,
        "cost": proposal.cost,
        "on_change": options.execution.on_change,
        "wait_for_nodes": options.execution.wait_for_nodes,
        **more,
    }
    return Plan(facts, run, proposal.review)
