"""Plans carried out on the simulated Ganeti."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.backends import luxi
from ganeti_htools.execution.events import Away, Changed, Event, News, Submitted, Submitting
from ganeti_htools.execution.execute import execute
from ganeti_htools.execution.jobs import Job, Jobsets, JobVerdict
from ganeti_htools.execution.queue import trace
from ganeti_htools.execution.review import Review
from ganeti_htools.execution.run import Ending, Run
from ganeti_htools.execution.wording import going_on
from ganeti_htools.execution.work import opcodes_of
from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.jobs import Patience
from ganeti_htools.luxi.opcodes import Signature
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.moves import MoveKind, NamedMove
from ganeti_htools.simulator.jobs import MOST_RUNNING
from ganeti_htools.simulator.world import lose_node
from tests.support.simulated import Simulated, simulated
from tests.support.worlds import delay, world

PATIENCE = Patience(answer=30, away=300, late=10)


def job(instance: str, kind: MoveKind, node: str | None, was: str, now: str) -> Job:
    step = NamedMove.of(instance, kind, node, tuple(was.split(":")), tuple(now.split(":")))
    return Job(f"{instance}: {was} => {now}", opcodes_of(step, forthcoming=False), (), step)


SHARED = job("shared", MoveKind.FAILOVER_TO, "three", "one", "three")
MIRRORED = job("mirrored", MoveKind.REPLACE_SECONDARY, "three", "one:two", "one:three")
BACK = job("mirrored", MoveKind.FAILOVER, None, "one:three", "three:one")
STUCK = job("stuck", MoveKind.MOVE, "three", "one", "three")
PLAN: Jobsets = [[SHARED], [MIRRORED], [BACK]]


def new(plan: Jobsets = PLAN) -> Run:
    return Run(Signature("test", "a test", "testing", "beef"), plan)


@dataclass
class Caller:
    """Who wants a plan carried out: hears of everything, and does things when it does."""

    master: Simulated
    client: LuxiClient
    check: Callable[[Cluster, Jobsets, int], Review] = lambda _cluster, _rest, _made: Review()
    react: Callable[[Event], None] = lambda _event: None
    stop: trio.Event = field(default_factory=trio.Event)
    events: list[Event] = field(default_factory=list)
    looks: int = 0

    async def tell(self, event: Event) -> None:
        self.events.append(event)
        self.react(event)

    async def read(self) -> Cluster:
        self.looks += 1
        return luxi.parse(await queries.whole_cluster(self.client))

    async def carry_out(self, run: Run) -> Run:
        await execute(run, self.client, self.read, self.check, self.tell, self.stop, lambda: 1, PATIENCE)
        return run

    def places(self) -> dict[str, tuple[str, str | None]]:
        return {row.name: (row.pnode, row.snode) for row in self.master.jobs.world.cluster.instances}


def statuses(run: Run) -> list[JobStatus | None]:
    return [task.status for task in run.tasks]


async def test_run_is_done_after_all_jobs(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        run = await caller.carry_out(new())
        assert run.ending is Ending.DONE
        assert statuses(run) == [JobStatus.SUCCESS] * 3
        assert [task.place for task in run.tasks] == ["1/1", "2/1", "3/1"]
        assert run.moved == 3
        assert caller.looks == 3
        assert caller.places()["shared"] == ("three", None)
        assert caller.places()["mirrored"] == ("three", "one")
        kinds = [type(event) for event in caller.events if not isinstance(event, News)]
        assert kinds == [Submitting, Submitted] * 3


async def test_jobset_is_submitted_together(autojump_clock: MockClock) -> None:
    async with simulated(world(), seconds=50) as (master, client):
        caller = Caller(master, client)
        run = await caller.carry_out(new([[SHARED, MIRRORED]]))
        assert run.ending is Ending.DONE
        (submitted,) = (event.tasks for event in caller.events if isinstance(event, Submitted))
        assert [task.number for task in submitted] == [1, 2]


def waits(*seconds: float) -> list[Job]:
    """Jobs of one jobset that take so long."""
    return [Job(f"wait {at}", (delay(each),), ()) for at, each in enumerate(seconds)]


def limited(*sets: list[Job], parallel: int) -> Run:
    run = new(list(sets))
    run.parallel = parallel
    return run


async def test_next_job_is_submitted_when_one_ends(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        caller, most = Caller(master, client), 0

        def count(_event: Event) -> None:
            nonlocal most
            unfinished = [job for job in master.jobs.unarchived() if not job.state.final]
            most = max(most, len(unfinished))

        caller.react = count
        run = await caller.carry_out(limited(waits(100, 1, 1, 1), waits(1), parallel=2))
        assert (run.ending, most, run.sets, caller.looks) == (Ending.DONE, 2, 2, 2)
        assert [task.place for task in run.tasks] == ["1/1", "1/2", "1/3", "1/4", "2/1"]
        assert 100 <= trio.current_time() < 120
        assert isinstance(caller.events[0], Submitting)
        assert len({number for task in run.tasks if (number := task.number)}) == 5


async def test_stop_leaves_the_rest_of_a_jobset(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        caller.react = lambda event: caller.stop.set() if isinstance(event, Submitted) else None
        run = await caller.carry_out(limited(waits(5, 5, 5), waits(1), parallel=1))
        assert (run.ending, statuses(run)) == (Ending.STOPPED, [JobStatus.SUCCESS])
        assert [[job.title for job in jobs] for jobs in run.rest] == [["wait 1", "wait 2"], ["wait 0"]]


async def test_no_job_follows_a_failed_one_in_its_jobset(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        master.jobs.behaviour.fail("shared")
        run = await Caller(master, client).carry_out(limited([SHARED, MIRRORED, *waits(1)], parallel=1))
        assert (run.ending, len(run.tasks)) == (Ending.FAILED, 1)
        assert [[job.title for job in jobs] for jobs in run.rest] == [[MIRRORED.title, "wait 0"]]


async def test_failed_job_ends_the_run_after_its_jobset(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        master.jobs.behaviour.fail("shared")
        run = await Caller(master, client).carry_out(new([[SHARED, MIRRORED], [BACK]]))
        assert run.ending is Ending.FAILED
        assert statuses(run) == [JobStatus.ERROR, JobStatus.SUCCESS]
        error = "INSTANCE_MIGRATE(shared): OpExecError: INSTANCE_MIGRATE(shared) failed as ordered"
        assert run.reason == f"job 1 ({SHARED.title}): {error}"
        assert run.rest == [[BACK]]


async def test_failed_move_names_the_instance_that_it_may_have_left_down(autojump_clock: MockClock) -> None:
    """Ganeti stops an instance to move it, and does not start it again after a failure."""
    async with simulated(world()) as (master, client):
        master.jobs.behaviour.fail("stuck")
        run = await Caller(master, client).carry_out(new([[STUCK]]))
        assert run.ending is Ending.FAILED
        assert run.reason.endswith(
            "failed as ordered; the move stops stuck, which may be down now: gnt-instance startup stuck"
        )


async def test_rejected_job_ends_the_run(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        master.jobs.drained = True
        run = await Caller(master, client).carry_out(new())
        assert run.ending is Ending.FAILED
        assert run.reason == f"not submitted ({SHARED.title}): SubmitManyJobs: GenericError: Queue drained"
        assert not run.current


async def test_run_stops_between_two_jobsets(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        caller.react = lambda event: caller.stop.set() if isinstance(event, Submitted) else None
        run = await caller.carry_out(new())
        assert run.ending is Ending.STOPPED
        assert statuses(run) == [JobStatus.SUCCESS]
        assert run.rest == [[MIRRORED], [BACK]]


async def test_run_stopped_after_the_last_jobset_is_done(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        caller.react = lambda event: caller.stop.set() if isinstance(event, Submitted) else None
        run = await caller.carry_out(new([[SHARED]]))
        assert run.ending is Ending.DONE


async def test_run_stops_while_ganeti_is_away(autojump_clock: MockClock) -> None:
    """Between two sets there is nothing to be waited for."""
    async with simulated(world()) as (master, client):
        await master.go()
        caller = Caller(master, client)
        caller.react = lambda event: caller.stop.set() if isinstance(event, Away) else None
        began = trio.current_time()
        run = await caller.carry_out(new())
        assert run.ending is Ending.STOPPED
        assert trio.current_time() - began < 30


@pytest.mark.parametrize("cancelled", [False, True])
async def test_run_goes_on_after_a_failure_of_an_independent_job(
    autojump_clock: MockClock, cancelled: bool
) -> None:
    """Not after one that somebody has cancelled."""
    async with simulated(world()) as (master, client):
        caller = Caller(master, client)
        if cancelled:
            master.jobs.submit([[delay(100)] for _ in range(MOST_RUNNING)])

            def cancel(event: Event) -> None:
                if isinstance(event, Submitted) and event.tasks[0].number is not None:
                    master.jobs.cancel(event.tasks[0].number)

            caller.react = cancel
        else:
            master.jobs.behaviour.fail("shared")
        run = await caller.carry_out(new([[replace(SHARED, independent=True)], [MIRRORED]]))
        assert run.ending is Ending.FAILED
        assert [task.done for task in run.tasks] == ([False] if cancelled else [False, True])
        assert "shared: one => three" in run.reason


async def test_jobs_go_on_after_cancellation(autojump_clock: MockClock) -> None:
    async with simulated(world(), seconds=100) as (master, client):
        run = new()
        with trio.CancelScope() as scope:
            caller = Caller(master, client)
            caller.react = lambda event: scope.cancel() if isinstance(event, Submitted) else None
            await caller.carry_out(run)
        assert run.ending is None
        assert going_on(run) == "jobs 1"
        assert run.rest == [[MIRRORED], [BACK]]
        await trio.sleep(200)
        assert master.states() == ["success"]


@pytest.mark.parametrize("seconds", [1, 100])
async def test_cancelled_run_is_continued(autojump_clock: MockClock, seconds: float) -> None:
    """What the queue has, whether it has ended meanwhile or not, is not submitted again."""
    async with simulated(world(), seconds) as (master, client):
        run = new()

        async def forget(event: Event) -> None:
            if isinstance(event, Submitted):
                raise MemoryError

        caller = Caller(master, client)
        with pytest.raises(MemoryError):
            await execute(run, client, caller.read, caller.check, forget, caller.stop, lambda: 1, PATIENCE)
        run.tasks[0].number = None  # as if it had ended before the answer was there
        assert going_on(run) == "perhaps 1 jobs with 'run beef' in their comments"
        await trio.sleep(30)
        await caller.carry_out(run)
        assert run.ending is Ending.DONE
        assert len(master.states()) == 3


async def test_trace_follows_jobs_without_submitting(autojump_clock: MockClock) -> None:
    async with simulated(world(), seconds=100) as (master, client):
        run = new([[SHARED, MIRRORED], [BACK]])
        run.next_set()
        master.jobs.submit([run.signature.sign(MIRRORED.opcodes, "1/2", 1)])
        caller = Caller(master, client)
        await trace(run, client, caller.tell, PATIENCE)
        assert [(task.place, task.number, task.status) for task in run.tasks] == [
            ("1/2", 1, JobStatus.SUCCESS)
        ]
        assert run.rest == [[SHARED], [BACK]]
        assert run.ending is None
        assert len(master.states()) == 1


async def test_run_ends_if_the_plan_no_longer_fits(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):

        def check(_cluster: Cluster, rest: Jobsets, made: int) -> Review:
            return Review("something happened") if made else Review()

        caller = Caller(master, client, check)
        run = await caller.carry_out(new())
        assert run.ending is Ending.CHANGED
        assert run.reason == "something happened"
        assert statuses(run) == [JobStatus.SUCCESS]
        assert caller.events[-1] == Changed("something happened", None)
        assert run.rest == [[MIRRORED], [BACK]]


async def test_new_plan_replaces_one_that_no_longer_fits(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        seen = []

        def check(cluster: Cluster, rest: Jobsets, made: int) -> Review:
            seen.append(next(row.pnode for row in cluster.instances if row.name == "shared"))
            return Review("something happened", [[MIRRORED]]) if made == 1 else Review()

        caller = Caller(master, client, check)
        run = await caller.carry_out(new())
        assert run.ending is Ending.DONE
        assert seen == ["one", "three"]
        assert run.changes == ["something happened"]
        assert caller.places()["mirrored"] == ("one", "three")
        assert [task.place for task in run.tasks] == ["1/1", "2/1"]


async def test_a_new_plan_may_be_empty(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        caller = Caller(master, client, lambda _cluster, _rest, _made: Review("all is well", []))
        run = await caller.carry_out(new())
        assert run.ending is Ending.DONE
        assert not run.tasks


async def test_run_ends_if_no_new_plan_can_be_made(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):

        def check(cluster: Cluster, rest: Jobsets, made: int) -> Review:
            raise HtoolsError("no such group")

        run = await Caller(master, client, check).carry_out(new())
        assert run.ending is Ending.CHANGED
        assert run.reason == "no such group"


async def test_run_is_lost_when_ganeti_stays_away(autojump_clock: MockClock) -> None:
    async with simulated(world(), seconds=1000) as (master, client), trio.open_nursery() as nursery:
        caller = Caller(master, client)
        caller.react = lambda event: nursery.start_soon(master.go) if isinstance(event, Submitted) else None
        run = await caller.carry_out(new())
        assert run.ending is Ending.LOST
        assert "given up after 300 s" in run.reason
        assert going_on(run) == "jobs 1"
        assert isinstance(caller.events[-1], Away)


@pytest.mark.parametrize("odd", [[[1]], [1], None, [7]])
@pytest.mark.parametrize("method", ["SubmitManyJobs", "QueryJobs", "WaitForJobChange", "Query"])
async def test_answers_of_another_shape_count_as_none(
    autojump_clock: MockClock, method: str, odd: object
) -> None:
    async with simulated(world(), seconds=50) as (master, client):
        master.trouble.odd[method] = [odd, odd]
        caller = Caller(master, client)
        run = await caller.carry_out(new())
        assert run.ending is Ending.DONE
        assert statuses(run) == [JobStatus.SUCCESS] * 3
        assert len(master.states()) == 3
        reasons = [event.reason for event in caller.events if isinstance(event, Away)]
        assert method in str(reasons[0])
        assert reasons[-1] is None
        assert not master.trouble.odd[method]


async def test_opcode_that_json_cannot_express_is_not_submitted(autojump_clock: MockClock) -> None:
    async with simulated(world()) as (master, client):
        run = Run(Signature("test", "a reason that is no text: \udcff", "testing", "beef"), PLAN)
        await Caller(master, client).carry_out(run)
        assert run.ending is Ending.LOST
        assert "cannot be sent as JSON" in run.reason
        assert not master.states()


async def test_starting_node_is_awaited(autojump_clock: MockClock) -> None:
    """Without its figures the cluster is not known."""
    async with simulated(world()) as (master, client), trio.open_nursery() as nursery:
        before = master.jobs.world
        master.jobs.change(lose_node(before, "two"))

        async def start_up() -> None:
            await trio.sleep(100)
            master.jobs.change(replace(before))

        nursery.start_soon(start_up)
        caller = Caller(master, client)
        run = await caller.carry_out(new())
        assert run.ending is Ending.DONE
        reasons = [event.reason for event in caller.events if isinstance(event, Away)]
        assert len(reasons) == 2
        assert "two" in str(reasons[0])
        assert reasons[1] is None


async def _with_trouble(trouble: str, at: int) -> int:
    """Carry out a plan with every kind of request. luxid does not answer request number ``at``.

    Return the number of requests.
    """
    awaiting = replace(SHARED, awaits=("three",))
    failing = replace(STUCK, retry=lambda _error: MIRRORED)
    again = Job("again", (delay(1),), ())
    slow = replace(
        again, title="slow", judge=lambda _results: JobVerdict("too slow"), retry=lambda _error: again
    )
    requests = 0
    async with simulated(world()) as (master, client), trio.open_nursery() as nursery:
        master.jobs.behaviour.fail("stuck")
        answer_of_luxid = master.answer

        async def answer(message: bytes) -> tuple[bytes, bool]:
            nonlocal requests
            requests += 1
            if requests == at:
                if trouble == "late":
                    await trio.sleep(1000)
                if trouble == "away":
                    master.there = False
                    nursery.start_soon(come_back)
                raise trio.BrokenResourceError
            return await answer_of_luxid(message)

        async def come_back() -> None:
            await trio.sleep(PATIENCE.away / 2)
            master.there = True

        async def answers(_address: str) -> bool:
            return True

        master.answer = answer
        caller, run = Caller(master, client), new([[awaiting], [failing], [slow]])
        await execute(
            *(run, client, caller.read, caller.check, caller.tell, caller.stop),
            *(lambda: 1, PATIENCE, answers),
        )
        assert (run.ending, run.reason) == (Ending.DONE, ""), at
        assert [task.job.title for task in run.tasks] == [
            *(SHARED.title, STUCK.title, MIRRORED.title, "slow", "again")
        ], at
        assert len(master.states()) == len(run.tasks), at
    return requests


TROUBLES = ("away", "closing", "late")


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_plan_goes_on_after_luxid_did_not_answer_one_request(
    autojump_clock: MockClock, trouble: str
) -> None:
    """Whichever request that is; each trouble meets another third of them."""
    for at in range(1 + TROUBLES.index(trouble), await _with_trouble(trouble, 0) + 1, len(TROUBLES)):
        await _with_trouble(trouble, at)
