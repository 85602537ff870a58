"""What does not add up, told to users. What nodes miss is tested with the state."""

from dataclasses import replace

from ganeti_htools.model.derive import derive
from ganeti_htools.model.inconsistencies import inconsistencies
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
