"""What does not add up, told to users. What nodes miss is tested with the state."""

from dataclasses import replace

from ganeti_htools.model.derive import derive
from ganeti_htools.model.inconsistencies import inconsistencies, tag_faults
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance


def test_reports_malformed_prices() -> None:
    held = ("htools:price:2", "htools:price:dear")
    state = derive(cluster({"a": 9000}, [instance("one", DiskTemplate.EXT, "a", tags=held)]))
    expected = "htools:price:FACTOR, with a number above 0"
    assert inconsistencies(state) == [
        f"instance one: tag htools:price:dear sets no price, expected {expected}"
    ]


def test_reports_malformed_demands_only_with_custom_classes() -> None:
    held = ("htools:resource:GPU:1", "htools:resource:CUSTOM_GPU:1", "htools:resource:CUSTOM_GPU:x\ny")
    plain = cluster({"a": 9000}, [instance("one", DiskTemplate.EXT, "a", tags=held)])
    assert inconsistencies(derive(plain)) == []
    node = replace(plain.nodes[0], inventories=(("CUSTOM_GPU", Inventory(1)),))
    expected = (
        "demands nothing, expected htools:resource:CLASS:AMOUNT, with a custom class and an amount above 0"
    )
    assert inconsistencies(derive(replace(plain, nodes=(node,)))) == [
        f"instance one: tag htools:resource:GPU:1 {expected}",
        f"instance one: tag htools:resource:CUSTOM_GPU:x\\ny {expected}",
    ]


def test_reports_tags_without_effect() -> None:
    good = ("htools:apart:x", "htools:fixed", "htools:pinned", "htools:price:2", "htools:home:u1", "htools-x")
    bad = ("htools:togeter:x", "htools:together", "htools:pinned:x", "htools:xyz")
    described = cluster({"a": 9000}, [instance("one", DiskTemplate.EXT, "a", tags=(*good, *bad))])
    node = replace(described.nodes[0], tags=("htools:standby:1", "htools:maintenence"))
    tags = ("htools:ignore:apart", "htools:ignore:aprt", "htools:iextag:svc")
    assert tag_faults(replace(described, nodes=(node,), tags=tags)) == [
        "cluster: tag htools:ignore:aprt has no effect; expected htools:ignore:KIND, with one of apart,"
        " avoid, fixed, home, node, on, pinned, price, resource, spread, together",
        "cluster: tag htools:iextag:svc has no effect; did you mean htools:iextags?",
        "node a: tag htools:maintenence has no effect; did you mean htools:maintenance?",
        "instance one: tag htools:togeter:x has no effect; did you mean htools:together?",
        "instance one: tag htools:together has no effect; expected htools:together:..., see htools-tags(7)",
        "instance one: tag htools:pinned:x has no effect; expected htools:pinned, see htools-tags(7)",
        "instance one: tag htools:xyz has no effect; htools-tags(7) has the known ones",
    ]
