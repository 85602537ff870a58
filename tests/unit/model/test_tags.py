from ganeti_htools.model import tags

CLUSTER = (
    *("htools:iextags:service", "htools:iextags:", "htools:iextags:vip:", "other"),
    *("htools:nlocation:rack", "htools:desiredlocation:rack"),
    *("htools:migration:cpu", "htools:allowmigration:cpu:old::cpu:new", "htools:allowmigration:broken"),
)


def test_exclusion() -> None:
    prefixes = tags.exclusion_prefixes(CLUSTER)
    assert prefixes == ("service", "vip:")
    assert tags.exclusion_tags(prefixes, ("service:a", "services", "vip", "vip:1", "x")) == (
        "service:a",
        "services",
        "vip:1",
    )
    assert tags.exclusion_tags((), ("service:a",)) == ()


def test_locations() -> None:
    assert tags.location_tags(CLUSTER, ("rack:1", "rack", "racks:1", "cpu:old")) == {"rack:1"}
    assert tags.desired_locations(CLUSTER, ("rack:1", "racks", "cpu")) == {"rack:1", "racks"}
    assert tags.location_tags((), ("rack:1",)) == frozenset()
    assert tags.desired_locations((), ("rack:1",)) == frozenset()
    assert tags.desired_locations(("htools:desiredlocation:",), ("rack:1",)) == frozenset()


def test_migration() -> None:
    assert tags.migration_tags(CLUSTER, ("cpu:old", "cpu", "rack:1")) == {"cpu:old"}
    received = tags.receivable_migration_tags(CLUSTER, ("cpu:new",))
    assert received == {"cpu:new", "cpu:old"}
    assert tags.receivable_migration_tags(CLUSTER, ("cpu:old",)) == {"cpu:old"}
    assert tags.receivable_migration_tags(CLUSTER, ()) == frozenset()


def test_bandwidth() -> None:
    cluster = ("htools:bandwidth:nic", "htools:bandwidth:site", "nic:slow", "site:a", "x:y")
    assert tags.bandwidth_tags(cluster, (), ("nic",)) == {"nic:slow", "site:a"}
    assert tags.bandwidth_tags(cluster, ("nic:fast", "other:1"), ()) == {"nic:fast", "site:a"}
    assert tags.bandwidth_tags(cluster, ("nic:fast",), ("nic:new", "nic:newer")) == {
        "nic:new",
        "nic:newer",
        "site:a",
    }
    assert tags.bandwidth_tags((), ("nic:fast",), ("nic:new",)) == frozenset()


def test_speeds() -> None:
    told = [f"htools:bandwidth:{rule}" for rule in ("nic", "a::b::100", "a::b", "a::b::c::1", "a::b::-1")]
    assert tags.bandwidths((*told, "htools:bandwidth:a::b::0", "a::b::7")) == [("a", "b", 100)]
