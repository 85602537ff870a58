"""Durations counted by size."""

from htoolsd.metrics.durations import BOUNDS, Durations


def test_buckets_are_cumulative_and_include_their_bound() -> None:
    durations = Durations()
    for seconds in (0.001, 0.005, 0.006, 60.0, 1000.0):
        durations.add(seconds)
    found = durations.to_json()
    upto = dict(map(tuple, found["buckets"]))
    assert (upto[0.005], upto[0.01], upto[30.0], upto[60.0]) == (2, 3, 3, 4)
    assert (found["count"], found["sum_s"]) == (5, 1060.012)
    assert list(upto) == list(BOUNDS)
