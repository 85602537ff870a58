"""``htoolsd``, also as ``python -m htoolsd``: clients see that it starts before anything takes long."""

import os
import sys

from htoolsd.process.starting import show_start


def main() -> int:
    """Run the daemon; return the exit status."""
    signs = show_start(sys.argv, os.environ)
    from htoolsd.process import service  # takes most of the time of a start

    return service.main(signs=signs)


if __name__ == "__main__":
    sys.exit(main())
