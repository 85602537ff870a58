"""Generated clusters as the rows that a file in the text format gives."""

import random
from dataclasses import replace

from ganeti_htools.backends import text
from ganeti_htools.model.cluster import Cluster
from tests.support.cases import case
from tests.support.clusters import Json, Shape, cluster
from tests.support.text_format import text as text_of


def rows(data: Json) -> Cluster:
    """The rows of a cluster that :mod:`tests.support.clusters` made."""
    return text.parse(text_of(data), "generated")


def generated(seed: int, shape: Shape) -> Cluster:
    """A cluster of that shape; the same for the same seed."""
    return rows(cluster(seed, shape))


def with_master(seed: int, shape: Shape) -> Cluster:
    """A generated cluster whose first node that is not offline is the master."""
    made = generated(seed, shape)
    master = next(node.name for node in made.nodes if not node.offline)
    return replace(made, nodes=tuple(replace(node, master=node.name == master) for node in made.nodes))


def any_cluster(rng: random.Random) -> Cluster:
    """A cluster of any shape, with a master node, some nodes with the tag ``red``."""
    made = rows(case(rng.randrange(1 << 30)).data)
    nodes = [replace(row, tags=(*row.tags, "red")) if rng.random() < 0.4 else row for row in made.nodes]
    online = [row for row, node in enumerate(nodes) if not node.offline]
    if online:
        master = rng.choice(online)
        nodes[master] = replace(nodes[master], master=True)
    return replace(made, nodes=tuple(nodes))
