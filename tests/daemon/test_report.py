"""The page about the cluster of a running daemon: in a file, and over HTTP."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.planning import call, ctl, following
from tests.daemon.test_http import RIGHT, ask, free_port, listens, over_tcp, token_file
from tests.support.programs import PROGRAMS, Daemon, request_file, run, running, wait_until
from tests.support.worlds import uneven


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, int]]:
    """A daemon that knows a cluster and has decided, and its port."""
    directory, port = tmp_path_factory.mktemp("report"), free_port()
    token = token_file(directory)
    (directory / "daemon").mkdir()
    with following(directory / "daemon", uneven(), config=over_tcp(port, token)) as (daemon, _):
        wait_until(lambda: listens(port))
        assert ctl(daemon, "decide", request_file(directory)).returncode == 0
        yield daemon, port


def test_page_in_a_file_is_the_one_over_http(serving: tuple[Daemon, int], tmp_path: Path) -> None:
    daemon, port = serving
    done = ctl(daemon, "report", f"--html={tmp_path / 'page.html'}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    page = (tmp_path / "page.html").read_text("utf-8")
    for title in ("Node groups", "Nodes", "Unevenness by component", "Health", "History of"):
        assert f"<h2>{title}" in page
    assert "allocate " in page
    status, head, body = ask(port, "GET / HTTP/1.1", RIGHT)
    assert (status, body) == (200, page)
    assert "Content-Type: text/html; charset=utf-8" in head
    assert call(daemon, "report")["html"] == page


def test_command_on_the_page_of_a_plan_carries_it_out(serving: tuple[Daemon, int], tmp_path: Path) -> None:
    page, socket = tmp_path / "page.html", {"HTOOLSD_SOCKET": str(serving[0].socket)}
    made = run(PROGRAMS / "hbal", "-D", "--html", page, environment=socket)
    assert made.returncode == 0
    (command, *_) = re.findall(r'class="answer">.* moves, .*</p><pre><code>([^<]*)', page.read_text())
    assert command == f"{PROGRAMS / 'hbal'} -D -X"
    done = run(*shlex.split(command), environment=socket)
    assert (done.returncode, "success" in done.stdout) == (0, True)


def test_policy_of_the_page_is_strict(serving: tuple[Daemon, int]) -> None:
    _, head, body = ask(serving[1], "HEAD /?x HTTP/1.1", RIGHT)
    (policy,) = [
        line.partition(": ")[2] for line in head.split("\r\n") if line.startswith("Content-Security")
    ]
    directives = {each.split()[0]: each.split()[1:] for each in policy.split(";")}
    assert directives.pop("style-src")[0].startswith("'sha256-")
    assert directives == {
        name: ["'none'"] for name in ("default-src", "base-uri", "form-action", "frame-ancestors")
    }
    assert body == ""


def test_unknown_cluster_has_no_page(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, config=over_tcp(port, token_file(tmp_path))) as daemon:
        wait_until(lambda: listens(port))
        shown = ctl(daemon, "report", f"--html={tmp_path / 'page.html'}")
        assert "refused (no-cluster): report: the report was not drawn" in shown.stderr
        assert shown.returncode == 1
        assert not (tmp_path / "page.html").exists()
        assert ask(port, "GET / HTTP/1.1", RIGHT)[0] == 503


def test_report_needs_a_file(serving: tuple[Daemon, int]) -> None:
    assert ctl(serving[0], "report").returncode == 2
