"""What no single move of a policy may cost."""

from dataclasses import replace

import pytest

from ganeti_htools.execution.jobs import Job, Jobsets
from ganeti_htools.execution.review import Review
from ganeti_htools.model.cluster import Cluster, Disk, Group
from ganeti_htools.model.moves import MoveKind, NamedMove
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.plan import Proposal
from ganeti_htools.planning.view import View, movable, state_of
from htoolsd.config.policies import RebalanceSettings, Reserve
from htoolsd.policies.rebalance import Rebalance
from htoolsd.policies.safety import UNSAFE, guarded, in_order, safe_moves
from tests.support import policies
from tests.support.worlds import instance, node

POLICY = replace(DEFAULT_IPOLICY, minmax=(), std=replace(DEFAULT_IPOLICY.std, memory_size=1000, cpu_count=1))


def cluster(**instances: tuple[str, int]) -> Cluster:
    """Nodes a, b and c, each with 4000 MiB for these instances: the node and the MiB of each."""
    rows = [
        replace(instance(name, DiskTemplate.EXT, place), mem=mem) for name, (place, mem) in instances.items()
    ]
    used = {name: sum(row.mem for row in rows if row.pnode == name) for name in "abc"}
    nodes = tuple(node(name, f_mem=4000 - used[name], t_cpu=64.0) for name in "abc")
    return Cluster((Group("default", "uuid", ipolicy=POLICY),), nodes, tuple(rows))


def step(name: str, was: str, now: str) -> NamedMove:
    return NamedMove.of(name, MoveKind.FAILOVER_TO, now, (was,), (now,))


LARGE = cluster(one=("a", 2000), two=("a", 1500), three=("c", 3000))


TWO = step("two", "a", "b")
ONE, OTHER = step("one", "a", "b"), step("one", "a", "c")
SET = [replace(ONE, with_next=True), TWO]
SLEEPER = node("d", f_mem=4000, t_cpu=64.0)


@pytest.mark.parametrize(
    ("rows", "steps", "reserve", "count"),
    [
        # Only an empty node takes what is on the third one.
        (LARGE, [TWO], 0.0, 0),
        (cluster(one=("a", 2000), two=("a", 1500)), [TWO], 0.0, 1),
        (cluster(one=("a", 900), two=("a", 800), three=("c", 3000)), [OTHER, TWO], 0.0, 2),
        # Another empty node would do, but not while it sleeps.
        (replace(LARGE, nodes=(*LARGE.nodes, SLEEPER)), [TWO], 0.0, 1),
        (replace(LARGE, nodes=(*LARGE.nodes, replace(SLEEPER, offline=True))), [TWO], 0.0, 0),
        # Instances of a lost node find places in reading order, not in that in which they came there.
        (
            cluster(one=("b", 1500), two=("b", 2500), three=("a", 1000), four=("c", 500)),
            [step("two", "b", "c")],
            0.0,
            0,
        ),
        # The third instance does not come back anyway; here no node can be lost, but the moved one came back.
        (cluster(one=("a", 500), two=("a", 200), three=("c", 3900), four=("b", 1000)), [TWO], 0.0, 1),
        (cluster(one=("a", 2000), two=("a", 1500), three=("c", 3900), four=("b", 1000)), [TWO], 0.0, 0),
        # The reserve counts if all nodes have it.
        *(
            (
                cluster(one=("a", 500), two=("a", 300), three=("c", 2600)),
                [step("two", "a", "c"), OTHER],
                reserve,
                count,
            )
            for reserve, count in ((0.0, 2), (1.0, 1), (4.0, 2))
        ),
        # Sets are whole afterwards.
        (cluster(one=("a", 2000), two=("a", 2000), three=("c", 500)), [ONE, TWO], 0.0, 1),
        (cluster(one=("a", 2000), two=("a", 2000), three=("c", 500)), SET, 0.0, 0),
        (cluster(one=("a", 1000), two=("a", 1500), three=("c", 1000)), SET, 0.0, 2),
    ],
)
def test_counts_moves_that_keep_redundancy_and_reserve(
    rows: Cluster, steps: list[NamedMove], reserve: float, count: int
) -> None:
    state = state_of(rows, View())
    kept = safe_moves(state, state.group == 0, movable(state, View()), steps, Reserve(reserve))
    assert kept == count


@pytest.mark.parametrize(("disks", "count"), [(False, 1), (True, 0)])
def test_reserve_has_disks_where_disks_move(disks: bool, count: int) -> None:
    """After the move the third node has no room for a standard disk."""
    rows = cluster(one=("a", 500))
    drbd = replace(rows.instances[0], template=DiskTemplate.DRBD, snode="b", dsk=1024, disks=(Disk(1024),))
    nodes = tuple(replace(row, f_dsk=1500 if row.name == "c" else 8000) for row in rows.nodes)
    state = state_of(replace(rows, instances=(drbd,), nodes=nodes), View())
    new = NamedMove.of("one", MoveKind.REPLACE_SECONDARY, "c", ("a", "b"), ("a", "c"))
    assert safe_moves(state, state.group == 0, movable(state, View()), [new], Reserve(1.0, disks)) == count


def test_guarded_review_refuses_an_unsafe_next_jobset() -> None:
    check = guarded(unchecked, View(), "default")
    rest = [[Job("title", (), (), TWO)]]
    assert check(cluster(one=("a", 2000), two=("a", 1500)), rest, 0).obstacle is None
    assert check(LARGE, rest, 0).obstacle == UNSAFE
    assert check(LARGE, [[], *rest], 0).obstacle is None  # not its turn yet
    assert check(LARGE, [], 0).obstacle is None
    other = guarded(lambda _cluster, _rest, _made: Review("of its own"), View(), "default")
    assert other(LARGE, rest, 0).obstacle == "of its own"


def test_balancing_skips_moves_that_cost_redundancy() -> None:
    eager = RebalanceSettings(mode="act", start=1e-3, stop=0.0, min_gain=1e-9)
    assert policies.planned(Rebalance, LARGE, eager).refusal == UNSAFE


def test_puts_each_move_into_its_own_jobset() -> None:
    """Those that ended first might cost what the order keeps; nodes are still drained at once."""
    drains = [Job("drain a", (), ()), Job("drain b", (), ())]
    moves = [Job(name, (), (), step(name, "a", "b")) for name in ("one", "two", "three")]
    jobs = [drains, moves[:2], moves[2:]]
    proposal = in_order(Proposal("balancing", (), jobs, {}, {"jobsets": 2}, {}, lambda *_: unchecked))
    assert proposal.jobs == [drains, [moves[0]], [moves[1]], [moves[2]]]
    assert proposal.cost == {"jobsets": 3}


def test_puts_moves_of_a_set_into_one_jobset() -> None:
    one, two, three = (Job(name, (), (), step(name, "a", "b")) for name in ("one", "two", "three"))
    together = replace(two, step=replace(TWO, with_next=True))
    proposal = in_order(Proposal("balancing", (), [[one, together, three]], {}, {}, {}, lambda *_: unchecked))
    assert proposal.jobs == [[one], [together, three]]


def unchecked(_cluster: Cluster, _rest: Jobsets, _made: int) -> Review:
    return Review()
