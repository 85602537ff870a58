"""The command line of ``htoolsd``."""

import argparse

from ganeti_htools.version import VERSION
from htoolsd.process.config import describe


def parser() -> argparse.ArgumentParser:
    """What the daemon can be started with."""
    made = argparse.ArgumentParser(
        prog="htoolsd",
        description="Answers iallocator requests on the Ganeti master.",
        epilog=f"Keys of the configuration file (TOML), and their defaults:\n{describe()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--socket", metavar="PATH", help="Unix socket to serve on")
    made.add_argument("--state-dir", metavar="DIR", help="directory of the lock and of lasting state")
    made.add_argument("--luxi", metavar="PATH", help="socket of Ganeti's luxid")
    made.add_argument("--config", metavar="FILE", help="configuration; the options above win over it")
    made.add_argument(
        "--stay", action="store_true", help="elsewhere than on the master node, wait for the role"
    )
    made.add_argument(
        "--check-config", action="store_true", help="only tell whether the configuration is right"
    )
    made.add_argument("--version", action="version", version=f"htoolsd {VERSION}")
    return made
