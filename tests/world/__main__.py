"""``python -m tests.world``: play the daemon in a world by seed; see docs/proof.md."""

import argparse
import gc
import importlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import trio

from tests.world.machine import installed
from tests.world.world import DAY, World, determined


@dataclass(frozen=True)
class Outcome:
    """The digest of a record, its findings, and how long it took."""

    digest: str
    findings: list[str]
    entries: int
    seconds: float


def part(name: str) -> Any:
    """Return a module of what lives in the world."""
    return importlib.import_module(f"tests.world.{name}")


async def live(world: World, days: float) -> None:
    """Let the world live for so many days."""
    async with trio.open_nursery() as nursery:
        world.begin(nursery)
        await part("ganeti").furnish(world)
        for name in ("administrator", "callers", "faults", "hardships"):
            nursery.start_soon(part(name).work, world)
        await trio.sleep(days * DAY)
        world.record("end")
        nursery.cancel_scope.cancel()


def simulate(seed: int, settings: Mapping[str, float], path: Path) -> Outcome:
    """Run a world, write its record at ``path``, and judge it."""
    began = time.perf_counter()
    # Memory instead of a disk: what is synced there need not survive.
    directory = Path(tempfile.mkdtemp(prefix="world", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    try:
        with determined(seed) as clock, path.open("wb") as file:
            world = World(seed, directory, file, settings, clock)
            with installed(world):
                trio.run(live, world, settings.get("days", 1.0), clock=clock)
    finally:
        shutil.rmtree(directory)
    entries = list(read(path))
    findings = part("judge").judge(entries)
    return Outcome(world.digest.hexdigest(), findings, len(entries), time.perf_counter() - began)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of a record."""
    with path.open("rb") as file:
        for line in file:
            yield orjson.loads(line)


def replay(seed: int, settings: Mapping[str, float]) -> str:
    """Return the command that runs a world again."""
    words = " ".join(f"--{name.replace('_', '-')}={value:g}" for name, value in settings.items())
    return f"PYTHONHASHSEED=0 .venv/bin/python -m tests.world --seed={seed} {words}"


def shrink(seed: int, settings: dict[str, float], found: str, path: Path) -> dict[str, float]:
    """Return settings with less of everything, with which the same judgement still finds something."""
    kind = found.partition(":")[0]
    for name, smaller in (("faults", 0.0), ("actors", 0.0), *(("nodes", n) for n in (4, 6, 10))):
        tried = {**settings, name: smaller}
        if any(each.startswith(kind) for each in simulate(seed, tried, path).findings):
            settings = tried
    days = settings.get("days", 1.0)
    while days > 1 / 48:
        tried = {**settings, "days": days / 2}
        if not any(each.startswith(kind) for each in simulate(seed, tried, path).findings):
            break
        days, settings = days / 2, tried
    return settings


def main() -> int:
    """Run worlds; return 1 if the judge finds something."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.world", *sys.argv[1:]],
            os.environ | {"PYTHONHASHSEED": "0"},
        )
    parser = argparse.ArgumentParser(prog="tests.world")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="so many, beginning with --seed")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no world after so long")
    parser.add_argument("--failed", action="store_true", help="the seeds in seeds.txt, which failed once")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--record", type=Path, help="where the record is written")
    for name in ("days", "nodes", "faults", "actors", "config-seconds", "live-seconds"):
        parser.add_argument(f"--{name}", type=float)
    options = vars(parser.parse_args())
    seed, number, end = options.pop("seed"), options.pop("seeds"), time.monotonic() + options.pop("seconds")
    failed, shrinks, path = options.pop("failed"), not options.pop("no_shrink"), options.pop("record")
    settings = {name: value for name, value in options.items() if value is not None}
    gc.freeze()
    gc.set_threshold(50_000, 50, 1000)  # collections take a fifth of the time otherwise
    runs = [(each, settings) for each in range(seed, seed + number)]
    if failed:
        lines = (Path(__file__).parent / "seeds.txt").read_text().splitlines()
        runs = [_run_of(line) for line in lines if line and not line.startswith("#")]
    status = 0
    for each, having in runs:
        if time.monotonic() > end:
            break
        with tempfile.TemporaryDirectory() as scratch:
            outcome = simulate(each, having, path or Path(scratch, "record"))
            print(
                f"seed {each}: {outcome.entries} entries, {outcome.digest[:16]}, {outcome.seconds:.1f} s,"
                f" {len(outcome.findings)} findings",
                flush=True,
            )
            for line in outcome.findings[:20]:
                print(f"  {line}")
            if outcome.findings:
                status = 1
                if shrinks:
                    having = shrink(each, having, outcome.findings[0], Path(scratch, "less"))
                print(replay(each, having), flush=True)
    return status


def _run_of(line: str) -> tuple[int, dict[str, float]]:
    seed, *settings = line.partition("#")[0].split()
    pairs = (word.split("=") for word in settings)
    return int(seed), {name: float(value) for name, value in pairs}


if __name__ == "__main__":
    sys.exit(main())
