"""What hbal would do, and what becomes of it when the cluster changes."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.engine.balancing.balance import Balancing
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning import hbal, view
from ganeti_htools.planning.hbal import NoGroupError, Options
from ganeti_htools.planning.view import View
from tests.support import by_hand
from tests.support.by_hand import instance

ROWS = [instance(f"i{row}", DiskTemplate.EXT, "n0") for row in range(4)]
CLUSTER = by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 10_000), ROWS)
OPTIONS = Options(balancing=Balancing(min_gain=0.0))


def ignore(_text: str) -> None:
    """Progress that nobody looks at."""


def test_each_step_is_a_line() -> None:
    state = view.state_of(CLUSTER, View())
    said: list[str] = []
    progress: list[str] = []
    plan = hbal.plan(state, np.ones(3, np.bool_), OPTIONS, lambda *texts: said.extend(texts), progress.append)
    assert len(said) == len(plan.moves) > 1
    assert said[0].startswith("    1. i")
    assert said[0].endswith(f" a={plan.moves[0].summary}")
    assert progress[-1].startswith(f"{len(said)} steps, score ")
    assert (state.pnode == 0).all()
    assert plan.after.pnode.tolist() != state.pnode.tolist()
    assert plan.greedy is None


def test_only_the_first_jobset() -> None:
    whole = hbal.propose(CLUSTER, OPTIONS, ignore)
    first = hbal.propose(CLUSTER, replace(OPTIONS, first_job_group=True), ignore)
    assert len(whole.jobs) > 1
    assert [[job.title for job in jobs] for jobs in first.jobs] == [[job.title for job in whole.jobs[0]]]
    assert first.found == whole.found


def test_the_groups_that_there_are() -> None:
    state = view.state_of(CLUSTER, View())
    (group,) = CLUSTER.groups
    name, scope = hbal.select_group(state, group.uuid)
    assert (name, scope.tolist()) == (group.name, [True] * 3)
    with pytest.raises(NoGroupError) as caught:
        hbal.select_group(state, "nowhere")
    assert caught.value.title == "Node group nowhere not found. Node group list is:"
    assert caught.value.names == (group.name,)


def test_a_rest_that_fits_is_left_alone() -> None:
    proposal = hbal.propose(CLUSTER, OPTIONS, ignore)
    said: list[str] = []
    review = proposal.review("replan", said.append)(CLUSTER, proposal.jobs, 0)
    assert (review.obstacle, review.plan, said) == (None, None, [])


def test_a_rest_that_does_not_fit_ends_or_is_planned_anew() -> None:
    proposal = hbal.propose(CLUSTER, OPTIONS, ignore)
    gone = replace(CLUSTER, instances=CLUSTER.instances[2:])
    stopped = proposal.review("stop", ignore)(gone, proposal.jobs, 0)
    assert stopped.obstacle
    assert stopped.plan is None
    said: list[str] = []
    again = proposal.review("replan", lambda *texts: said.extend(texts))(gone, proposal.jobs, 0)
    assert again.obstacle == stopped.obstacle
    assert again.plan
    assert said[:2] == [
        f"The plan does not fit the cluster any more: {stopped.obstacle}",
        "Planning anew...",
    ]


def test_moves_that_were_made_count_when_it_is_planned_anew() -> None:
    options = replace(OPTIONS, balancing=Balancing(min_gain=0.0, max_length=2))
    proposal = hbal.propose(CLUSTER, options, ignore)
    gone = replace(CLUSTER, instances=CLUSTER.instances[2:])
    for made, left in ((0, 2), (1, 1), (2, 0), (3, 0)):
        plan = proposal.review("replan", lambda *_texts: None)(gone, proposal.jobs, made).plan
        assert plan is not None
        assert sum(map(len, plan)) <= left
