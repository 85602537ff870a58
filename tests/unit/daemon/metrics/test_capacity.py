"""The count of free instances, by a real process."""

import pickle
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from ganeti_htools.backends import text
from ganeti_htools.model.cluster import Cluster
from htoolsd.helper import helper
from htoolsd.metrics import capacity
from htoolsd.metrics.capacity import CapacityCount
from tests.support.documents import SAMPLES


class Suicide:
    """Kills the process that unpickles it."""

    def __reduce__(self) -> tuple[object, ...]:
        return signal.raise_signal, (signal.SIGKILL,)


def sample(name: str) -> Cluster:
    return text.parse((SAMPLES / name).read_text("utf-8"), name)


class Led:
    """A synchronisation with the last cluster of a list."""

    def __init__(self, clusters: list[Cluster | None]) -> None:
        self._clusters = clusters

    @property
    def led_cluster(self) -> Cluster | None:
        return self._clusters[-1]


def count_of(clusters: list[Cluster | None]) -> CapacityCount:
    sync: Any = Led(clusters)
    return CapacityCount(sync)


@asynccontextmanager
async def counting(clusters: list[Cluster | None]) -> AsyncIterator[CapacityCount]:
    """A count of the last cluster of a list."""
    count = count_of(clusters)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(count.run)
        yield count
        nursery.cancel_scope.cancel()


async def ended(count: CapacityCount) -> None:
    with trio.fail_after(60):
        while count.status()["age_s"] is None:
            await trio.sleep(0.01)


async def test_counts_each_cluster_once_and_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "_PATIENCE", 60.0)
    monkeypatch.setattr(capacity, "_PAUSE", 0)
    clusters: list[Cluster | None] = [None]
    async with counting(clusters) as count:
        await count.request()
        assert count.status() == {"age_s": None, "complete": False, "error": None, "groups": []}
        clusters.append(sample("ceph-one.data"))
        await count.request()
        first = count.status()
        assert first["groups"] == [{"name": "default", "free_instances": 0, "balanced_score": 0.0}]
        assert (first["complete"], first["error"], first["age_s"]) == (True, None, 0.0)
        await count.request()
        await trio.sleep(0.05)
        assert count.status() == first
        clusters.append(sample("idle.data"))
        assert count.status()["age_s"] > 0.05


def free(count: CapacityCount) -> dict[str, int | None]:
    return {group["name"]: group["free_instances"] for group in count.status()["groups"]}


async def test_figures_of_unreached_groups_stay(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [
        (0, b'["a", "free_instances", 7]\n["b", "free_instances", 8]\n'),
        (1, b'["a", "free_instances", 6]\n'),
        (0, b'["a", "free_instances", 5]\n'),
    ]

    async def answer(*_command: object, **_options: object) -> subprocess.CompletedProcess[bytes]:
        status, output = answers.pop(0)
        return subprocess.CompletedProcess([], status, output, b"")

    monkeypatch.setattr(trio, "run_process", answer)
    clusters: list[Cluster | None] = []
    async with counting(clusters) as count:
        for figures in ({"a": 7, "b": 8}, {"a": 6, "b": 8}, {"a": 5}):
            clusters.append(sample("idle.data"))
            await count.request()
            await trio.sleep(1)
            assert free(count) == figures


@pytest.mark.parametrize(
    ("encoded", "error"),
    [(b"nothing", "UnpicklingError: "), (pickle.dumps(Suicide()), "ended by SIGKILL"), (None, "TypeError: ")],
)
async def test_failure_is_reported(
    monkeypatch: pytest.MonkeyPatch, encoded: bytes | None, error: str
) -> None:
    monkeypatch.setattr(helper, "encode", lambda _cluster: encoded or pickle.dumps())  # type: ignore[call-arg]
    async with counting([sample("idle.data")]) as count:
        await count.request()
        await ended(count)
        assert error in count.status()["error"]
        assert not count.status()["complete"]


@pytest.mark.parametrize("limit", ["CPU_SECONDS", "_COUNT_SECONDS"])
async def test_count_that_was_given_up_is_reported(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(capacity, limit, 0.001)
    async with counting([sample("idle.data")]) as count:
        await count.request()
        await ended(count)
        assert count.status()["error"].startswith("given up after 0.001 s")
        assert not count.status()["complete"]
