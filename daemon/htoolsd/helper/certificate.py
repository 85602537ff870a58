"""The judge's verdict about a plan, work of the helper."""

import json

import orjson

from ganeti_htools.judge.judge import judge
from ganeti_htools.model.cluster import Cluster


def work(cluster: Cluster, plan: str) -> None:
    """Print what the judge finds in a plan (JSON), as a list of lines."""
    print(json.dumps([str(each) for each in judge(cluster, orjson.loads(plan)).findings]))
