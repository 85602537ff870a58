"""A cluster that hsqueeze powers down in two phases."""

from dataclasses import replace

from ganeti_htools.model.cluster import Cluster
from tests.support.clusters import Shape
from tests.support.rows import with_master


def in_phases() -> Cluster:
    """A group of which some nodes can be emptied only once others are powered down."""
    templates = {"drbd": 3, "ext": 3, "diskless": 1}
    made = with_master(37, Shape(nodes=8, instances=12, templates=templates, fill=0.5, down=0))
    nodes = tuple(row for row in made.nodes if row.name != "node3.example.org")
    return replace(
        made, nodes=nodes, instances=tuple(row for row in made.instances if row.name != "inst4.example.org")
    )
