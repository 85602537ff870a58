from dataclasses import replace

from ganeti_htools.backends import simu, text
from ganeti_htools.cli.report import tables
from ganeti_htools.model.derive import derive
from ganeti_htools.model.inventory import Inventory

FILE = """\
g1|u1|preferred||

n1.example.com|100000|87655|12345|3000|500|4|N|u1|1||N|0|1|1.0
n2.example.com|100000|99985|15|1536|500|3|N|u1|1||N|0|1|1.0
n3.example.com|?|1|1|1|1|1|N|u1
n4.example.com|1000|0|0|4096|2048|8|M|u1|4||Y|3|2|1.0

i1.example.com|64|1152|2|ERROR_up|Y|n1.example.com|n2.example.com|drbd|web:a|1
i2.example.com|32|2048|1|ERROR_down|N|n1.example.com||plain|web:a,web:b|1

htools:iextags:web

"""


CLUSTER = text.parse(FILE, "x.data")


def test_more_fields_and_unknown_ones() -> None:
    usual = tables.nodes(derive(CLUSTER)).splitlines()
    more = tables.nodes(derive(CLUSTER), ("+", "bla", "hi_spindles", "inst_spindles")).splitlines()
    assert [line[: len(usual[0])] for line in more] == usual
    assert [line[len(usual[0]) :] for line in more] == [
        " <unknown field> MaxSpindles InstSpindles",
        " <unknown field>        32.0          2.0",
        " <unknown field>        32.0          1.0",
        " <unknown field>         0.0          0.0",
        " <unknown field>       128.0          0.0",
    ]


def test_fields_of_storage_units() -> None:
    cluster = simu.parse(["p,1,2g,4,4;lvm-vg,a%2Cb,3g;rbd,vms,1t", "p,1,4g,4,4"])
    fields = [
        "name",
        "tdsk/drbd",
        "fdsk/lvm-vg",
        "tdsk/lvm-vg/a%2Cb",
        "fdsk/rbd/vms",
        "fdsk/lvm-vg/none",
        "fdsk/x",
    ]
    rows = [line.split() for line in tables.nodes(derive(cluster), fields).splitlines()]
    assert rows == [
        ["Name", *(field.replace("dsk", "_dsk") for field in fields[1:6]), "<unknown", "field>"],
        ["node-01-001", "2", "2", "3", "1024", "-", "<unknown", "field>"],
        ["node-02-001", "4", "4", "-", "-", "-", "<unknown", "field>"],
    ]


def test_fields_of_units_follow_the_state() -> None:
    state = derive(simu.parse(["p,1,2g,4,4;lvm-vg,ssdvg,3g"]))
    state.columns.f_dsk_1[0] = 1024  # type: ignore[attr-defined]
    assert tables.nodes(state, ["fdsk/lvm-vg/ssdvg"]).split()[-1] == "1"


def test_the_default_unit_of_nodes_that_tell_none() -> None:
    assert tables.nodes(derive(simu.parse(["p,1,2g,4,4"])), ["fdsk/plain", "fdsk/file"]).split()[2:] == [
        "2",
        "-",
    ]


def test_fields_of_custom_classes() -> None:
    described = simu.parse(["p,2,2g,4096,4"])
    (one, other), gpus = described.nodes, ("CUSTOM_GPU", Inventory(4, 1))
    one = replace(one, inventories=(gpus, ("MEMORY_MB", Inventory(0, 1024))))
    state = derive(replace(described, nodes=(one, other)))
    fields = ["name", "fmem", "tres/CUSTOM_GPU", "fres/CUSTOM_GPU", "rres/CUSTOM_GPU", "fres/CUSTOM_X"]
    assert [line.split() for line in tables.nodes(state, fields).splitlines()] == [
        ["Name", "f_mem", "t_CUSTOM_GPU", "f_CUSTOM_GPU", "r_CUSTOM_GPU", "<unknown", "field>"],
        ["node-01-001", "3072", "3", "3", "0", "<unknown", "field>"],
        ["node-01-002", "4096", "0", "0", "0", "<unknown", "field>"],
    ]
