"""The tools print what the transcripts show."""

from pathlib import Path

import pytest

from tests.support.transcripts import TRANSCRIPTS, matches, played


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_tools_print_what_the_transcript_shows(path: Path) -> None:
    ran = 0
    for block, output, printed in played(path.read_text("utf-8")):
        expected = output.text if output is not None else ""
        assert matches(expected, printed), f"{block.text}\nprints:\n{printed}\nexpected:\n{expected}"
        ran += 1
    assert ran
