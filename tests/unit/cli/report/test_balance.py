"""What hbal says of a node group and of its plan."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import simu
from ganeti_htools.cli.report import balance
from ganeti_htools.cli.report.balance import After, Before, GroupReport
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.rules import choice
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.wording import size
from ganeti_htools.planning.balancing import hbal
from ganeti_htools.planning.balancing.hbal import GroupPlan, HbalOptions
from ganeti_htools.planning.balancing.stranded import StrandedInstance
from ganeti_htools.planning.jobsets import cost_of, jobsets
from ganeti_htools.planning.view import View, state_of
from tests.support import by_hand
from tests.support.by_hand import instance

EXT = DiskTemplate.EXT
CLUSTER = by_hand.cluster(
    {"n0": 10_000, "n1": 10_000, "n2": 10_000}, [instance(f"i{row}", EXT, "n0") for row in range(3)]
)


def before_of(cluster: Cluster) -> Before:
    state = state_of(cluster, View())
    scope = np.ones(len(state.group), np.bool_)
    return Before(state, "group1", scope, score_of(state, scope), choice.base(state, scope))


def after_of(before: Before, plan: GroupPlan) -> After:
    return After(plan, jobsets(plan.moves), plan.score_after, choice.base(plan.after, before.scope))


def balanced(before: Before) -> After:
    options = HbalOptions(balancing=BalancingOptions(min_gain=0.0))
    return after_of(
        before, hbal.balance_group(before.state, before.group, before.scope, options, lambda _text: None)
    )


def test_a_group_with_problems() -> None:
    full = instance("a", DiskTemplate.DRBD, "n0", "n1", mem=6000), instance("b", EXT, "n1", mem=6000)
    cluster = by_hand.cluster({"n0": 10_000, "n1": 10_000}, full)
    busy = replace(cluster.nodes[0], t_cpu=0.1)
    before = before_of(replace(cluster, nodes=(busy, *cluster.nodes[1:])))
    _, _, *lines = balance.about_group(before, CommandLine(verbose=5))
    assert lines[0] == "Initial check done: 1 bad nodes, 2 bad instances."
    assert 'Bad nodes: ["n1"]' in lines
    assert 'N+1 happy nodes: ["n0"]' in lines
    assert 'Node policy status: [("n0",Bad FailCPU)]' in lines
    assert lines[-3].startswith("Cluster is not N+1 happy")
    assert lines[-2:] == [
        "The cluster contains 1 policy-violating nodes.",
        "Continuing, but the set of moves might be too restricted; consider using the --ignore-soft-errors"
        " option.",
    ]
    *_, last = balance.about_group(before, CommandLine(ignore_soft_errors=True))
    assert last == "Continuing, ignoring soft errors."


def test_what_a_plan_gains_and_costs() -> None:
    before = before_of(CLUSTER)
    after = balanced(before)
    moves = len(after.plan.moves)
    assert moves
    (quiet,) = balance.about_plan(before, after, 0)
    assert quiet == f"Cluster score improved from {before.score:.8f} to {after.score:.8f}"
    gain, length, cost = balance.about_plan(before, after, 1)
    assert (gain, length) == (quiet, f"Solution length={moves}")
    assert cost == balance.cost_line(cost_of(after.sets))
    assert cost.endswith(f"; {len(after.sets)} jobsets")
    *_, changes = balance.about_plan(before, after, 2)
    assert changes == balance.changes(before.figures, after.figures)
    coefficients, table, *_ = balance.about_plan(before, after, 3)
    assert coefficients == f"Final coefficients:   overall {after.score:.8f}"
    assert table == balance.components(after.figures)


def test_what_is_copied_by_storage_unit_is_told_when_asked_for() -> None:
    made = simu.parse(["p,3,100g,9g,4;lvm-vg,ssdvg,9g"])
    rows = [instance(name, DiskTemplate.DRBD, "node-01-001", "node-01-002") for name in "abc"]
    before = before_of(replace(made, instances=tuple(rows)))
    after = balanced(before)
    by_unit = sum(move.disk for move in after.plan.moves)
    assert by_unit
    _, _, short = balance.about_plan(before, after, 1)
    _, _, long, _ = balance.about_plan(before, after, 2)
    assert long == short.replace(" of disks", f" of disks ({size(by_unit)} on lvm-vg/xenvg)")


@pytest.mark.parametrize("outcome", [None, {"ending": "done"}])
def test_a_plan_as_json(capsys: pytest.CaptureFixture[str], outcome: dict[str, str] | None) -> None:
    before = before_of(CLUSTER)
    after = balanced(before)
    group = GroupReport(before, after, [StrandedInstance("a", ["n"], "why")], True)
    balance.report(before.state, [group], False, {}, outcome)
    told = json.loads(capsys.readouterr().out)
    assert told["group"] == {"name": "group1", "nodes": 3, "instances": 3}
    assert told["score"] == {"before": before.score, "after": after.score}
    assert told["left_on_offline_nodes"] == [{"instance": "a", "nodes": ["n"], "why": "why"}]
    assert told.get("execution") == outcome
    assert "greedy" not in told
    assert [step["from"] for step in told["steps"]] == [list(move.was) for move in after.plan.moves]
    assert [step["to"] for step in told["steps"]] == [list(move.now) for move in after.plan.moves]
    assert [step["jobset"] for step in told["steps"]] == [
        number for number, jobs in enumerate(after.sets, 1) for _ in jobs
    ]


def test_what_nodes_have_free_of_all_their_storage_units() -> None:
    before = before_of(simu.parse(["p,2,8g,64g,4;lvm-vg,ssdvg,1g;ext,san,1t"]))
    assert balance.totals("Final", before.state, before.scope) == "Final:    mem=131072 disk=18432"
