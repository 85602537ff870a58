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


def test_price_factors() -> None:
    assert tags.price_factor(("a", "htools:pinned")) == 1
    assert tags.price_factor(("htools:price:0.5",)) == 0.5
    assert tags.price_factor(("htools:price:2", "htools:price:10", "htools:price:x")) == 10
    damaged = [f"htools:price:{text}" for text in ("", "0", "-1", "x", "1e3", "inf", "nan", "1.", "9" * 20)]
    assert tags.malformed_prices(["htools:price:3", *damaged]) == damaged
    assert tags.price_factor(damaged) == 1


def test_demands() -> None:
    held = ("htools:resource:CUSTOM_GPU:1", "htools:resource:CUSTOM_LICENCE:10", "CUSTOM_A:2", "service:a")
    assert tags.demands(held) == {"CUSTOM_GPU": 1, "CUSTOM_LICENCE": 10}
    assert tags.demands((*held, "htools:resource:CUSTOM_GPU:4")) == {"CUSTOM_GPU": 4, "CUSTOM_LICENCE": 10}
    assert tags.demands([tags.demand("CUSTOM_GPU", 3)]) == {"CUSTOM_GPU": 3}
    assert not tags.malformed_demands(held)


def test_demands_that_cannot_be_understood() -> None:
    wrong = ("", "CUSTOM_GPU", "CUSTOM_GPU:", "CUSTOM_GPU:0", "CUSTOM_GPU:-1", "CUSTOM_GPU:1.5")
    odd = ("CUSTOM_GPU:1:2", "GPU:1", "CUSTOM_gpu:1", "CUSTOM_GPU:\u0661", f"CUSTOM_GPU:{1 << 41}")
    counted_by_ganeti = ("MEMORY_MB:1", "CUSTOM_SPINDLES:1", "CUSTOM_DISK_MIB_LVM_VG_XENVG:1")
    words = (*wrong, *odd, *counted_by_ganeti, f"CUSTOM_GPU:{'9' * 5000}")
    held = tuple(f"htools:resource:{word}" for word in words)
    assert tags.demands(held) == {}
    assert tags.malformed_demands(("a", *held)) == list(held)


def test_standby_priority_is_the_lowest_number() -> None:
    assert tags.standby_priority(("htools:standby:auto", "htools:standby:12", "htools:standby:7")) == 7
    for other in ("auto", "", "-1", "1.5", "\u0662", "9" * 20):
        assert tags.standby_priority((f"htools:standby:{other}",)) == float("inf")
