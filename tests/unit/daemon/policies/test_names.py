"""Names in the settings of policies, of objects that come, go and are renamed."""

from dataclasses import replace

import pytest

from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.types import DiskTemplate
from htoolsd.config.policies import PolicySettings, RebalanceSettings, SqueezeSettings
from htoolsd.policies.names import (
    NamedObjects,
    Uuids,
    groups_of,
    named_objects,
    unknown_names,
    uuids_of,
    with_present_names,
)
from tests.support.worlds import instance, node

SETTINGS = SqueezeSettings(
    groups=("rack1", "rack9"),
    exclude_instances=("web.example.com", "mail", "gone"),
    never=("n1", "role:db", "n9"),
)


def objects(
    group: str = "rack1", web: str = "web.example.com", n1: str = "n1", remembered: Uuids | None = None
) -> NamedObjects:
    """The objects of a cluster, under these names."""
    rows = [(web, "u-web"), ("mail.example.com", "u-mail")]
    return named_objects(
        Cluster(
            (Group(group, "uuid"), Group("rack2", "uuid-2")),
            (node(n1, uuid="u-n1"), node("n2", uuid="u-n2", tags=("role:db",))),
            tuple(replace(instance(name, DiskTemplate.EXT, n1), uuid=uuid) for name, uuid in rows),
        ),
        remembered or {},
    )


def names(settings: PolicySettings) -> list[tuple[str, ...]]:
    return [settings.groups, settings.exclude_instances, getattr(settings, "never", ())]


def test_names_without_an_object_are_left_out() -> None:
    """A node group stays: without any name of a group the policy would act in all."""
    unknown = {"groups": ["rack9"], "exclude_instances": ["gone"], "never": ["n9"]}
    assert unknown_names(SETTINGS, objects()) == unknown
    present = with_present_names(SETTINGS, objects())
    instances = ("web.example.com", "mail.example.com")
    assert names(present) == [("rack1", "rack9"), instances, ("n1", "role:db")]
    assert with_present_names(RebalanceSettings(), objects()) == RebalanceSettings()


@pytest.mark.parametrize(
    ("named", "groups"),
    [((), ["rack1", "rack2"]), (("rack1", "rack9"), ["rack1"]), (("rack9",), [])],
)
def test_policy_acts_in_named_groups(named: tuple[str, ...], groups: list[str]) -> None:
    cluster = Cluster((Group("rack1", "uuid"), Group("rack2", "uuid-2")), (), ())
    assert groups_of(PolicySettings(groups=named), cluster) == groups


def test_renamed_objects_stay_meant() -> None:
    known = uuids_of([SETTINGS], objects())
    assert known == {
        "group": {"rack1": "uuid"},
        "instance": {"web.example.com": "u-web", "mail": "u-mail"},
        "node": {"n1": "u-n1"},
    }
    now = objects("rack3", "shop", "n3", known)
    assert names(with_present_names(SETTINGS, now)) == [
        ("rack3", "rack9"),
        ("shop", "mail.example.com"),
        ("n3", "role:db"),
    ]
    assert uuids_of([SETTINGS], now) == known
    assert unknown_names(SETTINGS, now) == unknown_names(SETTINGS, objects())


@pytest.mark.parametrize(
    ("known", "meant", "kept"),
    [
        ({}, ("mail.example.com",), "u-mail"),
        # Both are meant when another object gets the old name.
        ({"mail.example.com": "u-web"}, ("mail.example.com", "web.example.com"), "u-web"),
        ({"mail.example.com": "u-removed"}, ("mail.example.com",), "u-mail"),
    ],
)
def test_new_object_of_an_old_name_is_meant(known: dict[str, str], meant: tuple[str, ...], kept: str) -> None:
    settings = PolicySettings(exclude_instances=("mail.example.com",))
    now = objects(remembered={"instance": known})
    assert with_present_names(settings, now).exclude_instances == meant
    assert uuids_of([settings], now) == {"instance": {"mail.example.com": kept}}


def test_shortened_name_means_all_instances_that_begin_with_it() -> None:
    """Rather too many stay than one that is meant moves."""
    rows = [instance(name, DiskTemplate.EXT, "n1") for name in ("web.a.org", "web.b.org", "webmail.a.org")]
    found = named_objects(Cluster((Group("default", "uuid"),), (node("n1"),), tuple(rows)), {})
    settings = PolicySettings(exclude_instances=("web",))
    assert with_present_names(settings, found).exclude_instances == ("web.a.org", "web.b.org")
