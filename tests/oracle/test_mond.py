"""Loads reported by monitoring daemons become what they become in Debian's hbal."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.cli.cluster import load
from ganeti_htools.cli.report import tables
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.model.derive import derive
from tests.support.oracle import Oracle

pytestmark = pytest.mark.oracle

CLUSTER = """\
group|uuid|preferred||

node1|9000|1000|8000|1000|1000|32|N|uuid|1||N|0|3|1.0
node2|9000|1000|8000|1000|1000|32|N|uuid|1||N|0|1|1.0

inst1|100|0|1|running|Y|node1||ext||1
inst2|100|0|3|running|Y|node1|node2|drbd||1
inst3|100|0|5|ADMIN_offline|Y|node1||ext||1
inst4|100|0|2|ADMIN_down|Y|node1||ext||1
inst5|100|0|4|running|Y|node2||ext||1|-|Y
inst6|100|0|1|running|Y|node2||ext||1

"""


def reports(node: str, total: float, by_instance: dict[str, float]) -> dict[str, Any]:
    def report(name: str, data: object) -> dict[str, Any]:
        common = {"version": "B", "format_version": 1, "timestamp": 1, "category": None, "kind": 0}
        return {"name": name, "data": data, **common}

    average = {"cpu_number": 1, "cpus": [total], "cpu_total": total}
    return {
        "node": node,
        "reports": [report("cpu-avg-load", average), report("xen-cpu-avg-load", by_instance)],
    }


ALL = {f"inst{number}": number / 8 for number in range(1, 7)}


@pytest.mark.parametrize("xen", [False, True])
@pytest.mark.parametrize(
    "data",
    [
        [reports("node2", 3, {"inst6": 2.5, "inst1": 7}), reports("node1", 0.7, ALL)],
        [reports("node1", 0.7, ALL)],
        [reports("node1", 0.7, {}), reports("node2", 3, {"inst6": 2.5})],
        [],
    ],
)
def test_loads(
    oracle: Oracle, tmp_path: Path, capsys: pytest.CaptureFixture[str], data: list[Any], xen: bool
) -> None:
    cluster, mond = tmp_path / "cluster", tmp_path / "mond"
    cluster.write_text(CLUSTER)
    mond.write_text(json.dumps(data))
    options = ["-t", str(cluster), "--mond", "--mond-data", str(mond), *(["--mond-xen"] if xen else [])]
    command = [str(oracle.hbal), *options, "-l", "0", "-p", "--print-instances"]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True).stderr

    line = CommandLine(text_data=str(cluster), mond=True, mond_data=str(mond), mond_xen=xen)
    state = derive(load(line))
    warnings = capsys.readouterr().err
    assert theirs.startswith(
        f"{warnings}\nInitial instance map:\n{tables.instances(state)}"
        f"\nInitial cluster status:\n{tables.nodes(state)}"
    )
