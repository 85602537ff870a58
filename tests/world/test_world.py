"""The world itself: what a seed says happens, always in the same way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(seed: int, record: Path, *settings: str) -> bytes:
    """Return the record of a world."""
    command = [sys.executable, "-m", "tests.world", f"--seed={seed}", "--no-shrink", *settings]
    done = subprocess.run(
        [*command, f"--record={record}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
    )
    assert "findings" in done.stdout, done.stderr
    return record.read_bytes()


@pytest.mark.slow
def test_same_seed_has_the_same_record_to_the_byte(tmp_path: Path) -> None:
    settings = ("--days=0.042", "--nodes=5", "--faults=8", "--actors=4")
    first, second = (run(3, tmp_path / name, *settings) for name in ("first", "second"))
    assert first == second
    assert b'"event":"killed"' in first
    assert b'"event":"plan begun"' in first
