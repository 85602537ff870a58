from dataclasses import replace

import pytest

from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.planning.repair.instance_faults import instance_faults
from tests.support.worlds import instance

DRBD, PLAIN, EXT = DiskTemplate.DRBD, DiskTemplate.PLAIN, DiskTemplate.EXT
WRONG, UP = Status.WRONG_NODE, Status.ERROR_UP


@pytest.mark.parametrize(
    ("template", "status", "text", "command"),
    [
        (DRBD, WRONG, "web runs on another node than its primary", "gnt-instance migrate --cleanup web"),
        (
            EXT,
            WRONG,
            "web runs on another node than its primary",
            "gnt-instance migrate --cleanup -I hail web",
        ),
        (
            PLAIN,
            WRONG,
            "web runs on another node than its primary and cannot be migrated",
            "gnt-cluster verify",
        ),
        (PLAIN, UP, "web runs although it should be down", "gnt-instance shutdown web"),
    ],
)
def test_names_the_next_command(template: DiskTemplate, status: Status, text: str, command: str) -> None:
    row = replace(instance("web", template, "one", "two" if template is DRBD else None), status=status)
    (found,) = instance_faults([row, instance("mail", PLAIN, "one")], "")
    assert (found.kind, found.text) == ("up" if status is UP else "wrongnode", text)
    assert (found.command, found.names) == (command, ["web"])


def test_several_instances_share_a_line() -> None:
    rows = [replace(instance(name, EXT, "one"), status=WRONG) for name in ("web", "mail")]
    (found,) = instance_faults(rows, "mine")
    assert found.text == "web, mail run on other nodes than their primaries"
    assert (found.command, found.names) == ("gnt-instance migrate --cleanup -I mine web", ["web", "mail"])
