"""Two daemons with different state directories that follow one luxid."""

from pathlib import Path

from tests.daemon.planning import OFTEN, SPACIOUS, ctl, following, known, made, until
from tests.support.programs import running, wait_until
from tests.support.rows import generated


def test_second_daemon_only_reads_until_the_first_has_ended(tmp_path: Path) -> None:
    with following(tmp_path, generated(4, SPACIOUS)) as (first, ganeti):
        options = "--luxi", str(ganeti.socket)
        with running(tmp_path / "second", config=OFTEN, options=options) as second:
            known(second)
            holder = first.process.pid
            acts = f"another htoolsd (process {holder}) acts on {ganeti.socket}; this one only reads"
            assert second.status()["cluster"]["obstacle"] == acts
            assert first.status()["cluster"]["obstacle"] is None
            assert f"another htoolsd (process {holder}) acts on" in ctl(second, "status", "--wide").stdout
            plan = made(second, "hsqueeze")["id"]
            for refused in (ctl(second, "execute", plan), ctl(second, "claim", "x", "node1:MEMORY_MB=1")):
                assert (refused.returncode, refused.stderr) == (
                    1,
                    f"htoolsctl: refused (no-cluster): {acts}\n",
                )
            assert [line["process"] for line in second.told("another htoolsd acts on luxid")] == [holder]
            first.stop()
            wait_until(lambda: second.status()["cluster"]["obstacle"] is None)
            assert ctl(second, "execute", plan).returncode == 0
            until(second, "done")
