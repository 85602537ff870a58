"""Speed, ours and Debian's side by side: decisions (``requests.py``) and tools (``tools.py``).

And, with nothing to compare with, what balancing copies (``copying.py``), balancing by measured load
(``load.py``), relief of hot nodes (``relief.py``), node groups (``regroup.py``), following a cluster
(``sync.py``), claims (``claims.py``), the history (``history.py``), the ledger (``ledger.py``), a day under
policies (``policies.py``), overload (``overload.py``), and growth with the cluster (``scaling.py``).
"""

import argparse
import compileall
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path[0] = str(TOP)  # for bench.* and tests.*

from bench import (  # noqa: E402
    claims,
    copying,
    document,
    history,
    ledger,
    load,
    overload,
    policies,
    regroup,
    relief,
    requests,
    scaling,
    sync,
    tools,
)
from bench.timing import Table  # noqa: E402


def main() -> None:
    """Measure, print, and write on request."""
    parser = argparse.ArgumentParser(description="Measure our programs, side by side with Debian's.")
    parser.add_argument("--full", action="store_true", help="also the rows where Debian's take minutes")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md and README's figures")
    parser.add_argument(
        "rows",
        nargs="*",
        metavar="ROW",
        default=[""],
        help='only rows whose name starts so, like hbal or "hail 5 "',
    )
    options = parser.parse_args()
    if not (requests.DEBIAN.exists() and (tools.DEBIAN / "hbal").exists()):
        raise SystemExit("bench: nothing to compare with: install Debian's package ganeti-htools")
    for package in ("ganeti_htools", "daemon"):  # as an installation does
        compileall.compile_dir(TOP / package, quiet=1)

    tables = []
    parts = (
        requests,
        tools,
        copying,
        load,
        relief,
        regroup,
        sync,
        claims,
        history,
        ledger,
        policies,
        overload,
        scaling,
    )
    for part in parts:
        rows = [*part.ROWS, *(part.FULL_ROWS if options.full else [])]
        chosen = [row for row in rows if row.work.startswith(tuple(options.rows))]
        if chosen:
            tables.append(Table(part.TITLE, part.lines(chosen), part.NOTES))
            print(tables[-1].text(), flush=True)
    if options.write:
        document.write(tables)


if __name__ == "__main__":
    main()
