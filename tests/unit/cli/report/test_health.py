from ganeti_htools.cli.report import health
from ganeti_htools.cli.report.health import GroupFindings, HealthFindings
from ganeti_htools.engine.groups.diagnosis import GroupDiagnosis as Illness
from ganeti_htools.engine.redundancy.health import RedundancyHealth, Tolerance
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand

STATE = derive(by_hand.cluster({"n0": 10_000, "n1": 10_000}, [by_hand.instance("i", DiskTemplate.EXT, "n0")]))
GOOD, BAD = RedundancyHealth(0, 0, 0, 0, 0), RedundancyHealth(3, 0, 1, 0)
ILL = Illness((0,), (1,), (0,))
FOUND = HealthFindings((GroupFindings(0, BAD, ILL, 2.5),), BAD)


def test_a_cluster_is_healthy_if_nothing_was_counted() -> None:
    assert HealthFindings((), GOOD).healthy
    assert not FOUND.healthy


def test_more_is_told_on_request() -> None:
    told = health.as_text(STATE, FOUND, "INIT", rebalancing=True)
    more = health.as_text(STATE, FOUND, "INIT", rebalancing=True, more=True)
    assert set(more.splitlines()) - set(told.splitlines()) == {
        "    Node failures survived one after the other, largest node first: 1",
        "    Health: unhealthy",
        "        offline nodes still have i",
        "        n1 fails N+1, with i",
    }
    assert health.tolerated(Tolerance(1, 2)).endswith(": 1 (2 if data may be lost)")


def test_json_has_null_for_what_was_not_simulated() -> None:
    document = health.as_json(STATE, FOUND, None)
    assert document["cluster"]["final"] is None
    (group,) = document["groups"]
    assert group["final"] is None
    assert group["initial"] == {
        "n1_fail": 3,
        "conflict_tags": 0,
        "offline_pri": 1,
        "offline_nodes": 0,
        "score": 2.5,
    }
