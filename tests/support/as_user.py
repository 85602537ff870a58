"""A script that runs a program of ours as another user: ``UID GID GROUP,... PROGRAM ARGUMENT...``.

What the user may not be able to read is loaded first.
"""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    uid, gid, groups, program, *arguments = sys.argv[1:]
    "".encode("unicode_escape")  # loads the codec
    code = compile(Path(program).read_text(), program, "exec")
    os.setgroups([int(group) for group in groups.split(",") if group])
    os.setresgid(int(gid), int(gid), int(gid))
    os.setresuid(int(uid), int(uid), int(uid))
    sys.argv = [program, *arguments]
    exec(code, {"__name__": "__main__"})
