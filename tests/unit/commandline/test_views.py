from ganeti_htools.commandline.programs import HBAL
from ganeti_htools.commandline.reading import obey
from ganeti_htools.commandline.views import view_of
from ganeti_htools.planning.view import View


def test_without_options() -> None:
    assert view_of(obey(HBAL, [])) == View()


def test_each_option() -> None:
    line = obey(
        HBAL,
        [
            *("-Onode1", "--exclusion-tags=a,b", "--min-disk=0.5", "--max-cpu=3", "--ignore-dynu"),
            *("--select-instances=i", "--exclude-instances=j", "--static-kvm-node-memory=7"),
        ],
    )
    assert view_of(line) == View(("node1",), ("a", "b"), 0.5, 3.0, 7, ("i",), ("j",), True)
