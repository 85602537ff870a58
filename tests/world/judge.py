"""The judge: what is wrong with a record of the world. It knows nothing of the daemon's code.

Each judgement is a function that reads the record once and yields findings. A finding begins with the world's
time. Delays are generous: what a judgement accuses is certain.

Not judged: redundancy of instances on shared storage, storage units and custom classes, the order in which
the jobs of a jobset run (only the order that happened), bounds of MiB per day.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from math import inf
from typing import Any

Entry = dict[str, Any]
Record = Sequence[Entry]

DAY, HOUR = 86400.0, 3600.0
ROLE = 60.0  # seconds in which a daemon learns that its node is no longer the master
CALL = 15.0  # seconds of a call that only looks something up
DECISION = 100.0  # seconds of a decision: its turn, the decision, the claim
REPORT = 1800.0  # seconds in which a status shows what happens
LEFT = 4 * HOUR  # seconds in which somebody tells of a node that a plan left unfinished
STUCK = 1.5 * HOUR  # seconds that a plan may run without a job while all nodes report
_COMMENT = re.compile(r".*, run (\w+), job (\d+/\d+)")
_POLICY = re.compile(r"plan of policy (\w+), (\d+) moves, (\d+) MiB")
CLOSED = ("offline", "drained")
MARKS = ("htools:squeezing", "htools:maintenance")
MOVES = ("INSTANCE_MIGRATE", "INSTANCE_FAILOVER", "INSTANCE_REPLACE_DISKS", "INSTANCE_MOVE")


class Picture:
    """The cluster as the record tells it up to an entry."""

    def __init__(self) -> None:
        self.nodes: dict[str, Entry] = {}
        self.instances: dict[str, Entry] = {}
        self.tags: list[str] = []
        self.config: Entry = {}
        self.since: dict[str, float] = {}  # when a node last changed its state or tags
        self.foreign: dict[str, float] = {}  # when somebody but a job of ours last changed a node's use
        self.gone: dict[str, float] = {}  # when an instance was removed or renamed
        self.ours: dict[int, Entry] = {}  # the daemons' jobs, by number

    def follow(self, entry: Entry) -> None:
        """Take in an entry."""
        if entry["what"] == "cluster":
            self.nodes, self.instances = dict(entry["nodes"]), dict(entry["instances"])
            self.tags, self.config = entry["tags"], entry["config"]
        elif entry["what"] == "submit":
            self.ours |= {job["number"]: job for job in entry["jobs"] if is_ours(job)}
        elif entry["what"] == "change":
            self._change(entry)

    def _change(self, entry: Entry) -> None:
        touched = set(entry["nodes"])
        for name, row in entry["instances"].items():
            touched.update(self.instances.get(name, {"nodes": ()})["nodes"])
            if row is None:
                self.instances.pop(name, None)
                self.gone[name] = entry["t"]
            else:
                touched.update(row["nodes"])
                self.instances[name] = row
        for name, row in entry["nodes"].items():
            if state(self.nodes[name]) != state(row):
                self.since[name] = entry["t"]
            self.nodes[name] = row
        self.tags = entry.get("tags", self.tags)
        if entry["by"] not in self.ours:
            self.foreign |= dict.fromkeys(touched, entry["t"])

    def closed(self, name: str) -> bool:
        """Whether a node takes no instances."""
        node = self.nodes[name]
        return any(node[mark] for mark in CLOSED) or any(tag in node["tags"] for tag in MARKS)

    def reserved(self, name: str) -> int:
        """Return the memory that a node needs if the worst other node is lost."""
        peers: dict[str, int] = defaultdict(int)
        for row in self.instances.values():
            if row["reserves"] and len(row["nodes"]) == 2 and row["nodes"][1] == name:
                peers[row["nodes"][0]] += row["mem"]
        return max(peers.values(), default=0)

    def quiet(self, names: Iterable[str], since: float) -> bool:
        """Whether nobody else has changed these nodes since then."""
        return all(self.foreign.get(name, -inf) < since for name in names)


def state(node: Entry) -> Any:
    """Return what makes a node usable or not."""
    marks = [tag for tag in node["tags"] if tag.startswith(MARKS)]
    return [node[mark] for mark in (*CLOSED, "silent")] + marks


def is_ours(job: Entry) -> bool:
    """Whether a daemon has submitted a job as part of a plan."""
    return bool(_COMMENT.fullmatch(job["comment"] or ""))


def run_of(job: Entry) -> str:
    """Return the plan of a job of ours."""
    found = _COMMENT.fullmatch(job["comment"])
    assert found is not None
    return found[1]


def policy_of(job: Entry) -> str | None:
    """Return the policy whose plan a job belongs to."""
    for _, text in job["reason"]:
        if found := _POLICY.match(text):
            return found[1]
    return None


def moves(job: Entry) -> list[str]:
    """Return the instances that a job moves."""
    return [op["instance"] for op in job["ops"] if op["id"] in MOVES]


def submissions(record: Record) -> Iterator[tuple[Picture, Entry, Entry]]:
    """Yield each job of ours with the picture at its submission, and the entry of that."""
    picture = Picture()
    for entry in record:
        if entry["what"] == "submit":
            for job in entry["jobs"]:
                if is_ours(job):
                    yield picture, entry, job
        picture.follow(entry)


def submitted_twice(record: Record) -> Iterator[str]:
    """A job with the comment of an earlier one, unless that one has failed."""
    seen: dict[str, int] = {}
    states: dict[int, str] = {}
    for entry in record:
        if entry["what"] == "job":
            states[entry["number"]] = entry["state"]
        for job in entry["jobs"] if entry["what"] == "submit" else ():
            if is_ours(job):
                earlier = seen.setdefault(job["comment"], job["number"])
                if earlier != job["number"] and states.get(earlier) not in ("error", "canceled"):
                    yield f"{entry['t']:.0f}: job {job['number']} repeats job {earlier}: {job['comment']}"


def submitted_without_role(record: Record) -> Iterator[str]:
    """A job from a node that has been told that it is not the master."""
    lost: dict[str, float] = {}
    for entry in record:
        if entry["what"] == "role":
            lost.pop(entry["host"], None) if entry["master"] else lost.setdefault(entry["host"], entry["t"])
        elif entry["what"] == "submit" and any(is_ours(job) for job in entry["jobs"]):
            late = entry["t"] - lost.get(entry["host"], entry["t"]) > ROLE
            if late:
                yield f"{entry['t']:.0f}: {entry['host']} submits jobs without the role"


def polls(picture: Picture) -> float:
    """Return the seconds in which a daemon learns of a change."""
    return 2 * float(picture.config.get("config_seconds", 5.0)) + ROLE


def targets(picture: Picture, job: Entry) -> set[str]:
    """Return the nodes that get an instance or its disks by a job. A migration may go to the secondary."""
    found = {name for op in job["ops"] for name in op["targets"]}
    first = job["ops"][0]
    row = picture.instances.get(first["instance"])
    if row and first["id"] in ("INSTANCE_MIGRATE", "INSTANCE_FAILOVER") and not first["targets"]:
        found.update(row["nodes"][1:])
    return found


def unrecorded(record: Record) -> Iterator[str]:
    """A job of ours that its daemon has not recorded; a file that a power cut may tear."""
    for _, entry, job in submissions(record):
        if job.get("unrecorded"):
            yield f"{entry['t']:.0f}: job {job['number']} is not in {job['unrecorded']}"
    for entry in record:
        if entry["what"] == "unsynced":
            yield f"{entry['t']:.0f}: {entry['host']} renames {entry['file']} before it is synced"


def placed_on_closed(record: Record) -> Iterator[str]:
    """A job that names a node which takes no instances, and has not for a while.

    hmaintain returns instances before its tags go.
    """
    for picture, entry, job in submissions(record):
        returns = any(source == "hmaintain" for source, _ in job["reason"])
        for target in targets(picture, job):
            node = picture.nodes[target]
            closed = any(node[mark] for mark in CLOSED) if returns else picture.closed(target)
            if closed and picture.since.get(target, 0.0) < entry["t"] - polls(picture):
                yield f"{entry['t']:.0f}: job {job['number']} places {moves(job)} on {target}: closed"


def outdated(record: Record) -> Iterator[str]:
    """A job of ours on an instance that was gone before its review, or one that its tool does not make."""
    spoilt = [entry["t"] for entry in record if entry["what"] == "luxi"]
    for picture, entry, job in submissions(record):
        delayed = any(-200.0 < when - entry["t"] < 0.0 for when in spoilt)  # after the review
        for name in moves(job) if not delayed else ():
            if name not in picture.instances and picture.gone.get(name, inf) < entry["t"] - 10.0:
                yield f"{entry['t']:.0f}: job {job['number']} moves {name}, which is gone"
        nodes = [op["node"] for op in job["ops"] if op["id"].startswith("NODE_")]
        if nodes and job["reason"][:1] and job["reason"][0][0] in ("hbal", "hregroup"):
            yield f"{entry['t']:.0f}: job {job['number']} of {job['reason'][0][0]} changes {nodes}"


def decided_on_closed(record: Record) -> Iterator[str]:
    """A decision for a node that took no instances when it was asked for."""
    picture, closed = Picture(), dict[int, set[str]]()
    for entry in record:
        if entry["what"] == "call" and entry["method"] == "decide":
            closed[entry["id"]] = {name for name in picture.nodes if picture.closed(name)}
        elif entry["what"] == "answer" and isinstance(entry.get("answer"), list):
            for name in sorted(closed.pop(entry["id"], set()).intersection(entry["answer"])):
                yield f"{entry['t']:.0f}: decision for {name}, which is closed"
        picture.follow(entry)


def exclusion(picture: Picture, name: str) -> set[str]:
    """Return the other instances on an instance's primary that share an exclusion tag with it."""
    kinds = [
        tag.removeprefix("htools:iextags:") + ":" for tag in picture.tags if tag.startswith("htools:iextags:")
    ]
    row = picture.instances[name]
    own = {tag for tag in row["tags"] if any(tag.startswith(kind) for kind in kinds)}
    return {
        other
        for other, each in picture.instances.items()
        if own.intersection(each["tags"]) and other != name and each["nodes"][:1] == row["nodes"][:1]
    }


def own_changes(record: Record) -> Iterator[tuple[Picture, Entry, Entry, float]]:
    """Yield the changes by jobs of ours, before the picture follows them, with the job and its submission."""
    picture, begun = Picture(), dict[int, float]()
    for entry in record:
        if entry["what"] == "submit":
            begun |= {job["number"]: entry["t"] for job in entry["jobs"]}
        if entry["what"] == "change" and entry["by"] in picture.ours:
            yield picture, entry, picture.ours[entry["by"]], begun[entry["by"]]
        picture.follow(entry)


def _places(picture: Picture, names: Iterable[str]) -> set[str]:
    return {node for name in names if name in picture.instances for node in picture.instances[name]["nodes"]}


def rules_broken(record: Record) -> Iterator[str]:
    """A move of ours after which an instance shares its node with one that it must avoid."""
    for picture, entry, job, begun in own_changes(record):
        before = {name: exclusion(picture, name) for name in entry["instances"] if name in picture.instances}
        picture.follow(entry)
        nodes = _places(picture, entry["instances"])
        for name, others in before.items():
            new = exclusion(picture, name) if name in picture.instances else set()
            if new and not others and picture.quiet(nodes, begun - polls(picture)):
                yield f"{entry['t']:.0f}: job {job['number']} moves {name} to {sorted(new)}"


def redundancy_lost(record: Record) -> Iterator[str]:
    """A job of ours after which a node has too little memory for the loss of another.

    What happens within a job does not count, nor what has to leave a lost node: it has one way only.
    """
    picture, fitted, begun = Picture(), dict[int, dict[str, bool]](), dict[int, float]()
    for entry in record:
        number = entry.get("number", entry.get("by"))
        if entry["what"] == "submit":
            begun |= {job["number"]: entry["t"] for job in entry["jobs"]}
        elif entry["what"] == "change" and number in picture.ours:
            arrivals = {name for row in entry["instances"].values() if row for name in row["nodes"]}
            left = _places(picture, entry["instances"])
            if any(picture.nodes[name]["offline"] or picture.nodes[name]["silent"] for name in left):
                begun[number] = -inf
            for name in {*entry["nodes"], *left, *arrivals}:
                fits = picture.reserved(name) <= picture.nodes[name]["f_mem"]
                fitted.setdefault(number, {}).setdefault(name, fits)
        elif entry["what"] == "job" and entry["state"] == "success" and number in picture.ours:
            quiet = begun[number] - polls(picture)
            for name in sorted(name for name, fits in fitted.get(number, {}).items() if fits):
                needed, free = picture.reserved(name), picture.nodes[name]["f_mem"]
                if needed > free and not picture.closed(name) and picture.quiet([name], quiet):
                    text = f"job {number} of {picture.ours[number]['comment']!r} leaves {name}"
                    yield f"{entry['t']:.0f}: {text} without N+1: {needed} > {free}"
        picture.follow(entry)


def powered_down_in_use(record: Record) -> Iterator[str]:
    """A job of hsqueeze that sets a node offline while instances have their disks there."""
    for picture, entry, job, _ in own_changes(record):
        squeezes = any(source == "hsqueeze" for source, _ in job["reason"])
        for name, node in entry["nodes"].items() if squeezes else ():
            if node["offline"] and not picture.nodes[name]["offline"]:
                used = [each for each, row in picture.instances.items() if name in row["nodes"]]
                if used:
                    yield f"{entry['t']:.0f}: job {job['number']} sets {name} offline with {used[:3]}"


def over_budget(record: Record) -> Iterator[str]:
    """More moves of a policy in a day than its budget, or outside its hours."""
    made: dict[str, list[float]] = defaultdict(list)
    told = set[str]()
    for picture, entry, job in submissions(record):
        policy = policy_of(job)
        if policy is None or policy not in picture.config or policy in told:
            continue
        settings, wall = picture.config[policy], entry["wall"]
        made[policy] += [wall] * len({*moves(job)})
        recent = [when for when in made[policy] if wall - DAY < when <= wall]
        if len(recent) > settings["moves_per_day"]:
            told.add(policy)
            yield f"{entry['t']:.0f}: {policy} makes {len(recent)} moves in a day"
        if job["comment"].endswith("job 1/1") and not _within(settings["hours"], wall):
            told.add(policy)
            yield f"{entry['t']:.0f}: {policy} begins {job['comment']!r} outside of {settings['hours']}"


def _within(hours: str, wall: float) -> bool:
    """Whether a time is within hours, with five minutes for a plan that was being made."""
    begin, _, end = hours.partition("-")
    times = [datetime.fromtimestamp(wall - late).strftime("%H:%M") for late in (0, 300)]
    return not begin or any(
        begin <= time < end if begin < end else time >= begin or time < end for time in times
    )


def restless(record: Record) -> Iterator[str]:
    """An instance that two plans of a policy move within its rest. A job that fails has moved nothing."""
    ended = (entry for entry in record if entry["what"] == "job")
    failed = {entry["number"] for entry in ended if entry["state"] in ("error", "canceled")}
    last: dict[str, tuple[float, str]] = {}
    for picture, entry, job in submissions(record):
        policy = policy_of(job)
        if policy != "rebalance":
            continue
        rest = picture.config[policy].get("cool_down_seconds", DAY)
        for name in moves(job) if job["number"] not in failed else ():
            when, run = last.get(name, (-DAY * 9, ""))
            passed = entry["wall"] - when
            if run != run_of(job) and 0 <= passed < rest * 0.95:
                yield f"{entry['t']:.0f}: {policy} moves {name} again after {passed:.0f} s"
            last[name] = entry["wall"], run_of(job)


def answers(record: Record) -> Iterator[tuple[Entry, Entry]]:
    """Yield each call with its answer."""
    calls: dict[int, Entry] = {}
    for entry in record:
        if entry["what"] == "call":
            calls[entry["id"]] = entry
        elif entry["what"] == "answer" and entry["id"] in calls:
            yield calls.pop(entry["id"]), entry


def unanswered(record: Record) -> Iterator[str]:
    """A call of a friendly client that takes longer than its limit."""
    calls: dict[int, Entry] = {}
    end = record[-1]["t"] if record else 0.0
    for entry in record:
        if entry["what"] == "call":
            calls[entry["id"]] = entry
        elif entry["what"] == "answer" and entry["id"] in calls:
            call = calls.pop(entry["id"])
            limit = (
                DECISION
                if call["method"] in ("decide", "plan", "execute", "resume", "cancel", "explain")
                else CALL
            )
            if entry["t"] - call["t"] > limit:
                yield f"{call['t']:.0f}: {call['method']} took {entry['t'] - call['t']:.0f} s"
    for call in calls.values():
        if end - call["t"] > 10 * DECISION:
            yield f"{call['t']:.0f}: {call['method']} was never answered"


def clung(record: Record) -> Iterator[str]:
    """A hostile client whose connection stays open for longer than its limit."""
    limits = {"silent": 90.0, "slow": 90.0, "linger": 150.0}
    for entry in record:
        if entry["what"] == "hostile" and entry.get("kept", 0.0) > limits.get(entry["kind"], inf):
            yield f"{entry['t']:.0f}: a client that is {entry['kind']} stays for {entry['kept']:.0f} s"


def decided_otherwise(record: Record) -> Iterator[str]:
    """A decision that is not that of a fresh hail on the same cluster and the same promises."""
    for call, answer in answers(record):
        if call["method"] == "decide" and answer.get("expected") and answer["answer"] != answer["expected"]:
            yield f"{call['t']:.0f}: decided {answer['answer']!r:.200}, hail {answer['expected']!r:.200}"


def undecided(record: Record) -> Iterator[str]:
    """A refusal of a decision by a defect."""
    for call, answer in answers(record):
        if answer.get("error") == "internal" and "from the world" not in answer["message"]:
            yield f"{call['t']:.0f}: {call['method']}: internal error: {answer.get('message')}"


def statuses(record: Record) -> Iterator[tuple[Picture, Entry]]:
    """Yield each status of a master's daemon, with the picture at that time."""
    picture, methods = Picture(), dict[int, str]()
    for entry in record:
        if entry["what"] == "call":
            methods[entry["id"]] = entry["method"]
        elif entry["what"] == "answer" and methods.get(entry["id"]) == "status" and entry.get("master"):
            yield picture, entry
        picture.follow(entry)


def unreported(record: Record) -> Iterator[str]:
    """A lost node with instances that a status does not name long after it was lost."""
    told = set[str]()
    for picture, entry in statuses(record):
        named = {name for each in entry["attention"] for name in each["names"]}
        if any(each["kind"] in ("luxi", "late", "rival") for each in entry["attention"]):
            continue
        for name, node in picture.nodes.items():
            used = [
                each for each, row in picture.instances.items() if name in row["nodes"][:1] and row["uses"]
            ]
            since = picture.since.get(name, 0.0)
            lost = node["silent"] and entry["t"] - max(since, entry["up"]) > REPORT
            if lost and used and name not in told and not named & {name, *used}:
                told.add(name)
                yield f"{entry['t']:.0f}: status does not name {name}, lost since {since:.0f} with {used[:3]}"


def cried_wolf(record: Record) -> Iterator[str]:
    """A status that calls a node silent or an instance down which is well for long."""
    for picture, entry in statuses(record):
        for each in entry["attention"]:
            for name in each["names"] if each["kind"] == "silent" else ():
                node = picture.nodes.get(name)
                if node and not node["silent"] and entry["t"] - picture.since.get(name, 0.0) > REPORT:
                    yield f"{entry['t']:.0f}: status calls {name} silent"


def masterless(record: Record) -> Iterator[str]:
    """A daemon that does not know for long that its node is the master, or does not follow Ganeti again."""
    since, well, told = dict[str, float](), 0.0, set[str]()
    hosts = dict[int, str]()  # of calls, whose ids come again
    for entry in record:
        if entry["what"] == "call":
            hosts[entry["id"]] = entry["host"]
        elif entry["what"] == "role":
            since.pop(entry["host"], None) if not entry["master"] else since.setdefault(
                entry["host"], entry["t"]
            )
        elif entry["what"] == "luxi" or entry["what"] == "fault":
            well = max(well, entry["t"] + entry.get("seconds", 0.0))
        elif entry["what"] == "answer" and "attention" in entry and hosts[entry["id"]] in since:
            host = hosts[entry["id"]]
            behind = {each["kind"] for each in entry["attention"]} & {"luxi", "late"}
            known = max(since[host], entry["up"], well)
            if (behind or not entry["master"]) and entry["t"] - known > REPORT and host not in told:
                told.add(host)
                why = ", ".join(sorted(behind)) or "it does not know that it is the master"
                yield f"{entry['t']:.0f}: {host}, well since {known:.0f}: {why}"


def plans_hang(record: Record) -> Iterator[str]:
    """A plan that runs for hours without a job, although all nodes report."""
    working, last = dict[int, str](), dict[str, float]()
    told, picture = set[str](), Picture()
    for entry in record:
        picture.follow(entry)
        if entry["what"] == "submit":
            working |= {job["number"]: run_of(job) for job in entry["jobs"] if is_ours(job)}
            last |= {run_of(job): entry["t"] for job in entry["jobs"] if is_ours(job)}
        elif entry["what"] == "job" and entry["number"] in working:
            last[working.pop(entry["number"])] = entry["t"]
        elif entry["what"] == "answer" and "plans" in entry:
            for plan in entry["plans"]:
                run = plan["id"]
                if any(node["silent"] for node in picture.nodes.values()):
                    last[run] = entry["t"]
                idle = entry["t"] - last.setdefault(run, entry["t"]) > STUCK
                going = plan["state"] in ("running", "stopping") and run not in working.values()
                if going and idle and run not in told:
                    told.add(run)
                    since = f"{plan['state']} without a job since {last[run]:.0f}"
                    yield f"{entry['t']:.0f}: plan {run} is {since}"


def left_unfinished(record: Record) -> Iterator[str]:
    """A node that a plan has drained or tagged, which it left so and of which no status tells."""
    picture, by, told = Picture(), dict[str, float](), set[str]()
    methods = dict[int, str]()
    for entry in record:
        if entry["what"] == "call":
            methods[entry["id"]] = entry["method"]
        if entry["what"] == "change":
            ours = entry["by"] in picture.ours
            for name, node in entry["nodes"].items():
                marked = node["drained"] or "htools:squeezing" in node["tags"]
                if not marked or not ours:
                    by.pop(name, None)
                elif ours and "htools:maintenance" not in node["tags"]:
                    by[name] = entry["t"]
        if entry["what"] == "answer" and methods.get(entry["id"]) == "status" and entry.get("master"):
            named = {name for each in entry["attention"] for name in each["names"]}
            named |= {name for each in entry["attention"] for name in picture.nodes if name in each["text"]}
            for name, when in by.items():
                if entry["t"] - when > LEFT and name not in named | told and not entry["going"]:
                    told.add(name)
                    yield f"{entry['t']:.0f}: {name} is left drained or tagged since {when:.0f}"
        picture.follow(entry)


def claims_beyond(record: Record) -> Iterator[str]:
    """Claims that came over the capacity, claims that outlive their time by an hour, claims of nothing."""
    before: dict[tuple[str, str, str], tuple[int, int]] = {}  # what others use, and the capacity
    told = set[str]()
    for entry in record:
        for provider, name, capacity, claimed, used in entry["claims"] if entry["what"] == "ledger" else ():
            key, others = (entry["host"], provider, name), used - claimed
            if used > capacity and before.get(key) == (others, capacity):
                yield f"{entry['t']:.0f}: {provider} has {used} of {capacity} {name}, {claimed} by claims"
            before[key] = others, capacity
        faults = {"expired": "has ended and is still there", "empty": "has no allocations"}
        for kind, fault in faults.items() if entry["what"] == "ledger" else ():
            for claim in set(entry[kind]) - told:
                told.add(claim)
                yield f"{entry['t']:.0f}: {entry['host']}: claim {claim} {fault}"


def pointless(record: Record) -> Iterator[str]:
    """An instance that a policy moves to and fro while nobody else changes the cluster."""
    picture, places = Picture(), dict[str, list[tuple[float, list[str]]]]()
    for entry in record:
        if entry["what"] == "change":
            policy = entry["by"] in picture.ours and policy_of(picture.ours[entry["by"]])
            if not policy:
                places.clear()
            for name, row in entry["instances"].items() if policy else ():
                before = picture.instances.get(name)
                if row is not None and before is not None and row["nodes"] != before["nodes"]:
                    history = places.setdefault(name, [(entry["t"], before["nodes"])])
                    if any(set(row["nodes"]) == set(nodes) for _, nodes in history[:-1]):
                        yield f"{entry['t']:.0f}: {policy} moves {name} back to {row['nodes']}"
                    history.append((entry["t"], row["nodes"]))
        picture.follow(entry)


def defects(record: Record) -> Iterator[str]:
    """A defect that a daemon reports: an exception in its log, a damaged file, a plan that does not hold."""
    for entry in record:
        if entry["what"] == "log":
            found = entry.get("exception") or entry.get("findings", "")
            if (found or "is damaged" in entry["event"]) and "from the world" not in str(found):
                yield f"{entry['t']:.0f}: {entry['host']}: {entry['event']}: {found}"


JUDGEMENTS: tuple[Callable[[Record], Iterator[str]], ...] = (
    submitted_twice,
    submitted_without_role,
    unrecorded,
    placed_on_closed,
    outdated,
    decided_on_closed,
    rules_broken,
    redundancy_lost,
    powered_down_in_use,
    over_budget,
    restless,
    unanswered,
    clung,
    decided_otherwise,
    undecided,
    unreported,
    cried_wolf,
    masterless,
    plans_hang,
    left_unfinished,
    claims_beyond,
    pointless,
    defects,
)


def judge(record: Iterable[Entry]) -> list[str]:
    """Return the findings of all judgements, each with the judgement's name."""
    listed = list(record)
    return [f"{each.__name__}: {found}" for each in JUDGEMENTS for found in each(listed)]
