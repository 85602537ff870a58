"""A public class name means one thing in the library and the daemon."""

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]


def public_classes() -> dict[str, list[str]]:
    """The public classes by name, each with the modules that define it; nested classes too."""
    found: dict[str, list[str]] = defaultdict(list)
    for folder in ("ganeti_htools", "daemon/htoolsd"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in re.findall(r"^\s*class ([^\W_]\w*)[(:\[]", path.read_text("utf-8"), re.MULTILINE):
                found[name].append(str(path.relative_to(ROOT)))
    return found


def test_no_public_class_name_is_defined_twice() -> None:
    classes = public_classes()
    assert len(classes) > 100
    double = {name: paths for name, paths in classes.items() if len(paths) > 1}
    assert not double
