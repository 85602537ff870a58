"""The examples of README, ``docs/`` and ``man/`` print on the sample clusters what the documents show."""

import shutil
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.documents import DOCUMENTS, carry_out, sessions, shell
from tests.support.programs import ROOT

RUN = [path for path in DOCUMENTS if sessions(path.read_text("utf-8"))]
_NEEDED = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")


@_NEEDED
@pytest.mark.parametrize("path", RUN, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_print_what_the_document_shows(path: Path) -> None:
    ran = 0
    for session in sessions(path.read_text("utf-8")):
        # The path of a socket has at most 107 bytes.
        with tempfile.TemporaryDirectory() as name, shell(Path(name), session.sample) as started:
            examples = [*session.blocks, None]
            for block, following in pairwise(examples):
                if block is not None and block.kind != "output":
                    output = following.text if following is not None and following.kind == "output" else None
                    carry_out(started, block, output)
                    ran += 1
    assert ran


def test_most_documents_have_examples_that_run() -> None:
    names = {str(path.relative_to(ROOT)) for path in RUN}
    assert {"README.md", "docs/node-groups.md", "docs/ledger.md", "docs/storage.md"} <= names
