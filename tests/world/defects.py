"""Planted defects: which of them the judge finds, by which seed.

    python -m tests.world.defects [--seeds 50] [--hours 6] [--nodes=8 ...] [NAME...]

Each defect replaces a text of one file in a copy of the tree. Seeds run in that copy until a judgement finds
what it does not find without the defect. Settings of the world are passed on.
"""

import os
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PARTS = ("daemon", "ganeti_htools", "iallocator", "tests")
PATIENCE = 900  # seconds of a seed


class Defect(NamedTuple):
    """A text of a file, and what replaces it."""

    name: str
    path: str
    old: str
    new: str

    def plant(self, root: Path) -> None:
        """Put the defect into a copy of the tree."""
        file = root / self.path
        text = file.read_text()
        assert text.count(self.old) == 1, self.name
        file.write_text(text.replace(self.old, self.new))


LIBRARY, DAEMON = "ganeti_htools", "daemon/htoolsd"
DEFECTS = tuple(
    Defect(*each)
    for each in (
        ("nursery-wraps", f"{LIBRARY}/nursery.py", "            raise error\n", "            raise group\n"),
        (
            "name-kept-from-the-start",
            f"{DAEMON}/sync/this_node.py",
            "if not self.ssconf.leads() and self._resolver.available_tokens",
            "if False",
        ),
        (
            "one-review-for-all-plans",
            f"{DAEMON}/plans/plans.py",
            "check = review(on_change, plan.say)",
            "check = self.__dict__.setdefault('first', None) or review(on_change, plan.say)\n"
            "        self.__dict__['first'] = check",
        ),
        (
            "refund-of-whole-tables",
            f"{DAEMON}/policies/memory.py",
            "self.memories[charge.policy].spent.remove(charge.expense)",
            "self.memories[charge.policy].spent.clear(); self.moved = self.switched = {}",
        ),
        (
            "consumer-without-allocations",
            f"{DAEMON}/store/claiming.py",
            "    add_allocations(connection, [(consumer_id, wanted)], ids, class_ids)\n    return",
            "    return",
        ),
        (
            "claim-released-twice",
            f"{DAEMON}/plans/plans.py",
            "{plan.id for plan in plans if plan.state.going or plan.run.current}",
            "{plan.id for plan in plans if plan.run.current}",
        ),
        (
            "review-left-out",
            f"{LIBRARY}/execution/execute.py",
            "ended = await _review(queue, read, check, stop, answers)",
            "ended = None",
        ),
        (
            "jobset-before-its-record",
            f"{DAEMON}/plans/plans.py",
            "if isinstance(event, Submitting):\n                await self._record(plan)",
            "if isinstance(event, Submitting):\n                self._unrecorded.add(plan)",
        ),
        ("fsync-left-out", f"{LIBRARY}/files.py", "                os.fsync(file.fileno())\n", ""),
        (
            "budget-charged-after-the-act",
            f"{DAEMON}/policies/coordinator.py",
            "            await memory.save()\n            await self._plans.add(plan)\n"
            '            await self._plans.begin(plan, "stop", False)\n',
            "            await self._plans.add(plan)\n"
            '            await self._plans.begin(plan, "stop", False)\n            await trio.sleep(600)\n',
        ),
        ("role-not-looked-at", f"{DAEMON}/sync/sync.py", "if self.master is False:", "if False:"),
        (
            "role-never-lost",
            f"{DAEMON}/sync/this_node.py",
            'self._role, why = self.ssconf.leads(), ""',
            'self._role, why = self._role or self.ssconf.leads(), ""',
        ),
        (
            "claims-do-not-count",
            f"{DAEMON}/claims/claims.py",
            "return tuple(claim.promise for claim in self.living.values()) if self.active else ()",
            "return ()",
        ),
        (
            "maintenance-does-not-close",
            f"{LIBRARY}/model/cluster.py",
            "return self.offline or self.in_maintenance",
            "return self.offline",
        ),
        (
            "drained-nodes-in-use",
            f"{LIBRARY}/backends/query_rows.py",
            "offline=drained or not live",
            "offline=not live",
        ),
        (
            "cool-down-ignored",
            f"{DAEMON}/policies/memory.py",
            "return [name for name, when in since.items() if when > now - settings.cool_down_seconds]",
            "return []",
        ),
        (
            "hours-ignored",
            f"{DAEMON}/policies/conditions.py",
            "    if hours.minutes_until(minute):",
            "    if hours.minutes_until(minute) and False:",
        ),
        (
            "budget-not-counted",
            f"{DAEMON}/policies/memory.py",
            "return Budget(max(0, settings.moves_per_day - moves), max(0, settings.mib_per_day - mib))",
            "return Budget(settings.moves_per_day, settings.mib_per_day)",
        ),
        (
            "silent-nodes-not-told",
            f"{DAEMON}/api/attention.py",
            'if cluster["master"] and cluster["silent"]:',
            "if False:",
        ),
        (
            "nothing-needs-attention",
            f"{DAEMON}/api/attention.py",
            "    return found\n",
            "    return []\n",
        ),
        (
            "jobs-submitted-again",
            f"{LIBRARY}/luxi/jobs.py",
            "                looking = trio.current_time() + patience.late\n            continue",
            "                pass\n            continue",
        ),
        (
            "late-answer-for-the-next",
            f"{LIBRARY}/luxi/client.py",
            "                except _NO_ANSWER as error:\n                    await self._fail()\n",
            "                except _NO_ANSWER as error:\n",
        ),
        (
            "writes-without-limit",
            f"{DAEMON}/socket/server.py",
            "with trio.fail_after(self._settings.now.write_seconds):",
            "with trio.fail_after(10**9):",
        ),
        (
            "idle-clients-stay",
            f"{DAEMON}/socket/server.py",
            "idle = self._settings.now.idle_seconds",
            "idle = 10.0**9",
        ),
        (
            "squeeze-is-not-undone",
            f"{LIBRARY}/execution/execute.py",
            "if jobs and run.ending not in (Ending.DONE, Ending.LOST):",
            "if False:",
        ),
        (
            "claims-never-expire",
            f"{DAEMON}/store/worker.py",
            "released = await self.do(lambda ledger: ledger.release_unless_renewed(due)) if due else ()",
            "released = ()",
        ),
        (
            "cancelled-jobs-never-end",
            f"{LIBRARY}/luxi/job_queries.py",
            "return self in (JobStatus.CANCELED, JobStatus.SUCCESS, JobStatus.ERROR)",
            "return self in (JobStatus.SUCCESS, JobStatus.ERROR)",
        ),
        (
            "tasks-do-not-go-on",
            f"{DAEMON}/tasks.py",
            "            note_defect(name, defect)\n",
            "            note_defect(name, defect)\n            return\n",
        ),
        (
            "n1-is-not-checked",
            f"{LIBRARY}/engine/rules/node_rules.py",
            "return RESERVE.relation.broken(unallocated, r_mem)",
            "return RESERVE.relation.broken(unallocated, r_mem) & False",
        ),
        (
            "exclusion-tags-ignored",
            f"{LIBRARY}/model/tags.py",
            "return tuple(filter(None, _suffixes(EXCLUSION, cluster_tags)))",
            "return ()",
        ),
        (
            "decisions-from-the-cache",
            f"{LIBRARY}/deciding/decision.py",
            "    message = cache.reader.read(data)\n",
            "    message = cache.__dict__.setdefault('first', cache.reader.read(data))\n",
        ),
    )
)


def run(tree: Path, seed: int, hours: float, settings: Sequence[str]) -> set[str]:
    """Return the names of the judgements that find something in a seed's run in a copy of the tree."""
    words = (f"--seed={seed}", f"--days={hours / 24}", "--no-shrink", *settings)
    command = [sys.executable, "-m", "tests.world", *words]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": f"{tree}:{tree / 'daemon'}"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return {"no-end"}
    found = {line.strip().partition(":")[0] for line in done.stdout.splitlines() if line.startswith("  ")}
    return found or ({"no-run"} if done.returncode else set())


def main() -> None:
    """Print for each defect the first seed that finds it, and what finds it."""
    parser = ArgumentParser(description="Which seed finds which planted defect.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--hours", type=float, default=6.0)
    options, settings = parser.parse_known_args()
    sound: dict[int, set[str]] = {}
    for defect in DEFECTS:
        if options.names and defect.name not in options.names:
            continue
        with TemporaryDirectory() as directory:
            tree = Path(directory)
            for part in PARTS:
                shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
            defect.plant(tree)
            for seed in range(1, options.seeds + 1):
                if seed not in sound:
                    sound[seed] = run(ROOT, seed, options.hours, settings)
                if found := run(tree, seed, options.hours, settings) - sound[seed]:
                    print(f"{defect.name}: seed {seed}: {', '.join(sorted(found))}", flush=True)
                    break
            else:
                print(f"{defect.name}: not found", flush=True)


if __name__ == "__main__":
    main()
