import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from ganeti_htools.backends import simu, text
from ganeti_htools.cli import files
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.model.cluster import Cluster, Load
from ganeti_htools.model.errors import HtoolsError
from tests.support.clusters import Shape
from tests.support.clusters import cluster as generated
from tests.support.luxi_answers import answers, luxid

FILE = """\
g|u|preferred||

node1|1000|0|1000|1000|1000|4|M|u
node2|1000|0|1000|1000|1000|4|N|u

inst1|10|10|3|running|Y|node1|node2|drbd|
inst2|10|10|1|running|Y|node2||plain|

"""


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "cluster.data"
    path.write_text(FILE)
    return str(path)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ä"
    path.write_text("grüße\r\n", "utf-8", newline="")
    assert files.read_text(str(path)) == "grüße\r\n"
    assert files.read_bytes(str(path)) == "grüße\r\n".encode()


def test_standard_input_is_read() -> None:
    script = "from ganeti_htools.cli import files; print(files.read_text('-') * 2)"
    result = subprocess.run(
        [sys.executable, "-c", script], input="abc", capture_output=True, text=True, check=True
    )
    assert result.stdout == "abcabc\n"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("none", "none: cannot be read: No such file or directory"),
        ("", "cannot be read: Is a directory"),
        ("a\0b", "a\0b: cannot be read: embedded null byte"),
        ("binary", "binary: expected UTF-8 text, but byte 2 is not"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(tmp_path: Path, name: str, error: str) -> None:
    (tmp_path / "binary").write_bytes(b"ab\xff")
    with pytest.raises(HtoolsError) as caught:
        files.read_text(f"{tmp_path}/{name}")
    assert str(caught.value).endswith(error)
    assert "\n" not in str(caught.value)


def test_what_is_no_regular_file_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for path in (str(pipe), f"/proc/self/fd/{reader}"):
            files.write_text(path, "told\n")
            assert os.read(reader, 100) == b"told\n"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out"
    files.write_text(str(path), "old ä\n")
    files.write_text(str(path), "new\r\n")
    assert path.read_bytes() == b"new\r\n"
    assert os.listdir(tmp_path) == ["out"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_what_a_link_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    files.write_text(str(tmp_path / "link"), "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(HtoolsError, match=rf"^{path}: cannot be written: "):
        files.write_text(str(path), "half\ud800")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize(
    ("name", "error"), [("none/out", "No such file or directory"), ("", "Is a directory")]
)
def test_where_nothing_can_be_written(tmp_path: Path, name: str, error: str) -> None:
    directory = tmp_path / "directory"
    directory.mkdir()
    with pytest.raises(HtoolsError, match=f"^{directory}/{name}: cannot be written: {error}$"):
        files.write_text(f"{directory}/{name}", "new")
    assert os.listdir(tmp_path) == ["directory"]


def test_a_cluster_is_saved(tmp_path: Path) -> None:
    cluster = simu.parse(["p,2,1,1,1"])
    message = files.save(str(tmp_path / "out"), "pre-ialloc", "before iallocator run", cluster)
    path = tmp_path / "out.pre-ialloc"
    assert message == f"The cluster state before iallocator run has been written to file '{path}'"
    assert path.read_text() == text.dump(cluster)


def test_a_cluster_is_loaded(data: str) -> None:
    assert files.load(CommandLine(text_data=data)) == text.parse(FILE, data)
    assert files.load(CommandLine(simulate=("p,1,1,1,1",), text_data=data)) == simu.parse(["p,1,1,1,1"])


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (CommandLine(), "No backend selected! Exiting."),
        (CommandLine(luxi="/none"), "/none: Ganeti cannot be reached: No such file or directory"),
        (CommandLine(simulate=("x",)), "Invalid cluster specification 'x': .*"),
        (CommandLine(text_data="/none"), "/none: cannot be read: No such file or directory"),
        (CommandLine(text_data="/dev/null"), "/dev/null: Invalid format of the input file: 0 sections .*"),
    ],
)
def test_a_cluster_that_cannot_be_loaded(line: CommandLine, error: str) -> None:
    with pytest.raises(HtoolsError, match=f"^failed to load data, aborting: {error}$"):
        files.load(line)


def test_a_cluster_is_loaded_from_ganeti(tmp_path: Path) -> None:
    data, socket = generated(1, Shape(nodes=3, instances=4)), tmp_path / "socket"
    with luxid(socket, answers(data)):
        cluster = files.load(CommandLine(luxi=str(socket), simulate=("p,1,1,1,1",)))
    assert [node.name for node in cluster.nodes] == list(data["nodes"])


@pytest.mark.parametrize(
    "given",
    [{"luxi": "", "master": "host"}, {"luxi": "a", "text_data": "b"}, {"master": "a", "text_data": "b"}],
)
def test_only_one_source_is_given(given: dict[str, str]) -> None:
    with pytest.raises(HtoolsError, match=r"^Only one of the rapi, luxi, and data files options should be"):
        files.load(replace(CommandLine(), **given))  # type: ignore[arg-type]


def cpu(cluster: Cluster) -> list[float]:
    return [instance.load.cpu for instance in cluster.instances]


def write(path: Path, content: object) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else orjson.dumps(content))
    return str(path)


def report(node: str, total: float) -> object:
    return {"node": node, "reports": [{"name": "cpu-avg-load", "data": {"cpu_total": total}}]}


def test_dynamic_utilisation_comes_from_a_file(data: str, tmp_path: Path) -> None:
    path = write(tmp_path / "u", "inst2 7 1 1 1\nother 1 1 1 1\n")
    assert cpu(files.load(CommandLine(text_data=data, dynu_file=path))) == [1.0, 7.0]


def test_dynamic_utilisation_comes_from_monitoring_daemons(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "m", [report("node1", 2.0), report("node2", 3.0)])
    line = CommandLine(text_data=data, mond=True, mond_data=path)
    cluster = files.load(line)
    assert [node.cpu_load for node in cluster.nodes] == [2.0, 3.0]
    assert cpu(cluster) == [1.5, 1.5]
    assert cpu(files.load(CommandLine(text_data=data, mond_data=path))) == [1.0, 1.0]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("mond", [False, True])
def test_dynamic_utilisation_is_ignored_on_request(data: str, tmp_path: Path, mond: bool) -> None:
    utilisation = write(tmp_path / "u", "inst2 7 1 1 1\n")
    reports = write(tmp_path / "m", [report("node1", 2.0), report("node2", 3.0)])
    cluster = files.load(
        CommandLine(text_data=data, dynu_file=utilisation, mond=mond, mond_data=reports, ignore_dynu=True)
    )
    assert {instance.load for instance in cluster.instances} == {Load(0, 0, 0, 0)}
    assert {node.cpu_load for node in cluster.nodes} == {None}


def test_missing_reports_are_told_and_may_end_the_program(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "m", [report("node1", 2.0)])
    warning = "Didn't receive an answer by all MonDs, cpu-avg-load's data will be ignored.\n"
    line = CommandLine(text_data=data, mond=True, mond_data=path)
    assert files.load(line) == text.parse(FILE, data)
    assert capsys.readouterr() == ("", warning)
    with pytest.raises(HtoolsError, match=r"^Not all required data available$"):
        files.load(CommandLine(text_data=data, mond=True, mond_data=path, exit_on_missing_mond_data=True))
    assert capsys.readouterr() == ("", warning)


def test_daemons_that_cannot_be_asked_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = FILE.replace("node1", "no such host")
    cluster = text.parse(unknown, "x")
    assert files.with_mond(cluster, CommandLine(mond=True, mond_xen=True)) == cluster
    out, err = capsys.readouterr()
    assert out == ""
    assert "Failed to contact node's no such host MonD for DC xen-cpu-avg-load\n" in err
    assert err.endswith("Didn't receive an answer by all MonDs, xen-cpu-avg-load's data will be ignored.\n")


def test_dynamic_data_that_is_wrong_is_refused(data: str, tmp_path: Path) -> None:
    path = write(tmp_path / "wrong", "a\n")
    with pytest.raises(HtoolsError, match=rf"^can't parse utilisation data: {path}: line 1: Cannot"):
        files.load(CommandLine(text_data=data, dynu_file=path))
    with pytest.raises(HtoolsError, match=rf"^can't parse MonD data: {path}: Invalid JSON: "):
        files.load(CommandLine(text_data=data, mond=True, mond_data=path))


def test_inconsistencies_are_listed() -> None:
    assert files.inconsistencies([]) == ""
    assert files.inconsistencies(["a", "b"]) == "Warning: cluster has inconsistent data:\n  - a\n  - b\n\n"
